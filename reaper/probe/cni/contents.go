package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// mostContent bounds what one Contents holds in memory; it is 10,000 usual cache files.
const mostContent = 16 << 20

var errChanged = errors.New("it is no longer what was judged")

// Contents reads files that were judged once more, with all that a restore needs. The
// answer has one entry for each file, in the same order. Err says of a file that it is
// gone, that it is another or has been written since, or that its content is another; such a file
// is left alone. Later says that the answer is large enough without the file: it was not read,
// and belongs into the next batch.
func (r *Reader) Contents(ctx context.Context, files []cni.File) []cni.Content {
	out := make([]cni.Content, 0, len(files))
	room := int64(mostContent)
	for from := 0; from < len(files); {
		to := from + 1
		for to < len(files) && to-from < batchSize && files[to].Dir == files[from].Dir && files[to].Kind == files[from].Kind {
			to++
		}
		read, err := r.readContents(ctx, files[from:to], room)
		for i, f := range files[from:to] {
			if err != nil {
				out = append(out, cni.Content{File: f, Err: err.Error()})
				continue
			}
			room -= int64(len(read[i].Data))
			out = append(out, read[i])
		}
		from = to
	}
	return out
}

// readContents reads files of one directory.
func (r *Reader) readContents(ctx context.Context, files []cni.File, room int64) ([]cni.Content, error) {
	d, err := r.dirOf(&files[0])
	if err != nil {
		return nil, err
	}
	contents := make([]cni.Content, len(files)) // copies: a read that hangs must not see what becomes of files
	for i := range files {
		contents[i].File = files[i]
	}
	read, err := bounded.Do(ctx, r.Guard, "cni contents "+d.path, func() error {
		fd, err := openDirectory(r.Open, d)
		if err != nil {
			return err
		}
		defer beneath.Close(fd)
		left := room
		for i := range contents {
			c := &contents[i]
			if err := r.readContent(fd, c, left); err != nil {
				*c = cni.Content{File: c.File, Err: err.Error()}
			}
			left -= int64(len(c.Data))
		}
		return nil
	})
	if err = cmp.Or(err, read); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", clean.Name(d.path), err)
	}
	return contents, nil
}

// dirOf finds the directory of a file, to open it as the sweep did.
func (r *Reader) dirOf(f *cni.File) (directory, error) {
	if f.Kind == cni.Address {
		return directory{f.Kind, filepath.Dir(f.Dir), []string{filepath.Base(f.Dir)}, f.Dir}, nil
	}
	for _, base := range r.CacheDirs {
		for _, c := range cacheDirs {
			d := cacheDir(base, c.kind, c.names)
			if d.kind == f.Kind && d.path == f.Dir {
				return d, nil
			}
		}
	}
	return directory{}, fmt.Errorf("%s is below no cache directory", clean.Name(f.Dir))
}

// readContent reads one file and compares it with what was judged.
func (r *Reader) readContent(dir int, c *cni.Content, room int64) error {
	fd, st, err := r.Open.RootFile(dir, c.File.Name, unix.DT_UNKNOWN)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	if fileID(&st) != c.File.ID {
		return errChanged
	}
	if c.File.ID.Size > room {
		c.Later = true
		return nil
	}
	text, err := beneath.ReadAll(fd, c.File.ID.Size, longCache)
	if err != nil {
		return beneath.PathError("read", c.File.Name, err)
	}
	// The same bytes are of the same container, so they are not taken apart again.
	if int64(len(text)) != c.File.ID.Size || c.File.Facts[cni.Tied].Truth != policy.Yes || maphash.Bytes(sumSeed, text) != c.File.Sum {
		return errChanged
	}
	c.Data = text
	c.Mode, c.Owner = uint32(st.Mode&0o7777), [2]uint32{st.Uid, st.Gid}
	c.Mtime = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	c.Label, err = label(fd)
	return err
}

// label returns the file's SELinux label, "" where it has none.
func label(fd int) (string, error) {
	var buf [4096]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Fgetxattr(fd, "security.selinux", buf[:]) })
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read its SELinux label: %w", err)
	}
	return strings.TrimRight(string(buf[:n]), "\x00"), nil
}
