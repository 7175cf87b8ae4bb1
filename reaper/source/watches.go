package source

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

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
