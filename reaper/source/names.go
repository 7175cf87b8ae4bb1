package source

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// siblings returns the paths beside the log that look like rotated forms of it and are not compressed.
func siblings(path string) ([]string, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // Only read.
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if rotated(base, name) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	slices.Sort(found)
	return found, nil
}

// rotated reports whether name is what logrotate(8) and others make of base:
//
//	messages.1  messages-20260101  messages.2026-01-01  kube-20260101.log  kube.1.log  messages.old
func rotated(base, name string) bool {
	switch filepath.Ext(name) {
	case ".gz", ".xz", ".zst", ".bz2", ".lz4", ".lzma", ".Z", ".zip":
		return false
	}
	if name == base+".old" {
		return true
	}
	ext := filepath.Ext(base)
	for _, stem := range []string{base, strings.TrimSuffix(base, ext)} {
		rest, ok := strings.CutPrefix(name, stem)
		if ok && len(rest) > 1 && (rest[0] == '.' || rest[0] == '-') && rest[1] >= '0' && rest[1] <= '9' {
			return true
		}
	}
	return false
}

// maxLinks is the kernel's own bound on symlinks in one path (path_resolution(7)).
const maxLinks = 40

// watches returns what must wake the follower: each open file by its descriptor, and the
// directory of the name and of every link on the way to the file. Where such a
// directory is missing, the nearest one above that exists.
func (f *File) watches() []watch {
	all := make([]watch, 0, 4)
	for _, t := range f.files() {
		all = append(all, watch{path: "/proc/self/fd/" + strconv.Itoa(int(t.file.Fd()))})
	}
	path := f.opts.Path
	for range maxLinks {
		var ino uint64
		dir, name := filepath.Dir(path), filepath.Base(path)
		for {
			var st unix.Stat_t
			if err := unix.Stat(dir, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				ino = st.Ino
				break
			}
			if dir == filepath.Dir(dir) {
				break
			}
			dir, name = filepath.Dir(dir), filepath.Base(dir)
		}
		all = append(all, watch{path: dir, name: name, ino: ino})
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return all
}
