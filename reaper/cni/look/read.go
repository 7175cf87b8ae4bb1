package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// batchSize is how many files one call reads, within its time limit even if the disk needs ten milliseconds for each.
const batchSize = 512

// mostContent limits the contents that one chunk holds in memory, to those of some 5,000 cache files.
const mostContent = 8 << 20

// openDir is a directory that is being read.
type openDir struct {
	*bounded.Handle
	directory
	names beneath.Names
	rest  []beneath.Entry // listed and not yet read
	done  bool
}

func (r *Reader) openDir(ctx context.Context, d directory) (*openDir, error) {
	return bounded.Try(ctx, r.Guard, "cni "+d.path(), func() (*openDir, error) {
		dir, err := d.open(r.Open)
		if err != nil {
			return nil, err
		}
		return &openDir{Handle: bounded.NewHandle(dir.FD()), directory: d, names: beneath.NamesOf(dir.FD(), make([]byte, 32<<10))}, nil
	})
}

// readSome reads the next files of a directory, at most most of those for which wanted, if it is not nil, returns
// true. It stops when room has no bytes left; names that were listed but not read come with the next call.
func (r *Reader) readSome(ctx context.Context, d *openDir, most int, room *atomic.Int64, wanted func(name string) bool) ([]cni.File, error) {
	type some struct {
		files []cni.File
		names beneath.Names
		rest  []beneath.Entry
		end   bool
		err   error
	}
	in, names, rest := d.directory, d.names, slices.Clone(d.rest) // a call that hangs must not use the sweep later
	a, err := bounded.On(ctx, r.Guard, "cni "+d.path(), d.Handle, func(fd int) some {
		a := some{names: names, rest: rest}
		for len(a.rest) < most {
			e, ok, err := a.names.Next()
			if !ok {
				a.end, a.err = err == nil, err
				break
			}
			if !in.skips(e) && (wanted == nil || wanted(e.Name)) {
				a.rest = append(a.rest, e)
			}
		}
		a.files, a.rest = r.readFiles(fd, in, a.rest, most, room)
		return a
	})
	if err != nil {
		return nil, err
	}
	d.names, d.rest, d.done = a.names, a.rest, a.end && len(a.rest) == 0
	return a.files, a.err
}

// readFiles reads the first of some files, several at a time, and returns the names of the others.
func (r *Reader) readFiles(fd int, d directory, names []beneath.Entry, most int, room *atomic.Int64) ([]cni.File, []beneath.Entry) {
	read := make([]cni.File, min(most, len(names)))
	exists := make([]bool, len(read))
	var next atomic.Int64
	var wg sync.WaitGroup
	path := d.path()
	for range min(4, runtime.GOMAXPROCS(0), len(read)) {
		wg.Go(func() {
			var buf []byte
			for room == nil || room.Load() > 0 {
				i := int(next.Add(1) - 1)
				if i >= len(read) {
					return
				}
				read[i] = cni.File{Kind: d.kind, Dir: path, Name: names[i].Name}
				buf, exists[i] = r.readFile(fd, names[i], buf, &read[i], room)
			}
		})
	}
	wg.Wait()
	begun := min(int(next.Load()), len(read))
	files := read[:0]
	for i := range begun {
		if exists[i] {
			files = append(files, read[i])
		}
	}
	return files, names[begun:]
}

// readFile reads and parses one file. It returns the buffer for the next file, and false if the file is gone.
func (r *Reader) readFile(dir int, e beneath.Entry, buf []byte, f *cni.File, room *atomic.Int64) ([]byte, bool) {
	if f.Kind == cni.Address && !f.Addr().IsValid() {
		// A configuration may name any directory as dataDir, so only reservations are opened.
		st, err := beneath.StatName(dir, e.Name)
		if beneath.Gone(err) {
			return buf, false
		}
		f.ID, f.Changed = cni.FileID(beneath.StateOf(&st)), fileChanged(&st)
		f.Parse(nil)
		return buf, true
	}
	fd, st, err := r.Open.At(dir).RootFile(e.Name, e.Kind)
	if beneath.Gone(err) {
		return buf, false
	}
	f.ID, f.Changed = cni.FileID(beneath.StateOf(&st)), fileChanged(&st)
	if err != nil {
		truth := policy.Unknown
		if _, ok := errors.AsType[beneath.NotRegularError](err); ok {
			truth = policy.No
		}
		f.Set(cni.Tied, truth, f.Dir, err.Error())
		return buf, true
	}
	defer beneath.Close(fd)
	limit := int64(cni.MaxFile)
	if f.Kind == cni.Address {
		limit = cni.MaxAddress
	}
	if buf == nil {
		buf = make([]byte, 0, 16<<10)
	}
	text, err := beneath.ReadInto(fd, buf[:0], int64(min(st.Size, 1<<40)), limit)
	if err != nil {
		// A file that is too long or cannot be read may belong to any container.
		f.Set(cni.Tied, policy.Unknown, f.Dir, err.Error())
		return buf, true
	}
	if f.Parse(text); room != nil && f.Facts[cni.Tied].Truth == policy.Yes {
		keepForRestore(f, fd, &st, text)
		room.Add(-int64(len(text)))
	}
	return text, true
}

// keepForRestore keeps the values that a restore needs.
func keepForRestore(f *cni.File, fd int, st *unix.Statx_t, text []byte) {
	label, err := label(fd)
	if err != nil {
		f.Err = err.Error()
	}
	f.Mode, f.Owner = uint32(st.Mode&0o7777), [2]uint32{st.Uid, st.Gid}
	f.Mtime = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	f.Label, f.Data = label, bytes.Clone(text)
}

// label returns the file's SELinux label, or "".
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

// fileChanged returns the later of a file's change and modification times, or zero if they are unknown.
func fileChanged(st *unix.Statx_t) time.Time {
	if st.Mode == 0 {
		return time.Time{}
	}
	return time.Unix(0, max(beneath.Nanos(st.Ctime), beneath.Nanos(st.Mtime)))
}
