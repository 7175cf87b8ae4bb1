package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// batchSize is how many files are read at a time: so many are read within the patience even
// from a disk that takes ten milliseconds for each.
const batchSize = 512

// mostContent bounds the contents that one chunk holds in memory: 5,000 usual cache files.
const mostContent = 8 << 20

// fate is what became of a name that was to be read.
type fate byte

const (
	read  fate = iota
	gone       // it is not there any more
	later      // the chunk holds enough without it: it is read with the next
)

// readBatch is a batch that was read.
type readBatch struct {
	files []cni.File
	fates []fate
}

// readChunk reads the files of the chunk.
func (s *Sweep) readChunk(ctx context.Context, c *Chunk) {
	c.files = make([]cni.File, len(c.names))
	fates := make([]fate, len(c.names))
	var next atomic.Int64
	var wg sync.WaitGroup
	starts := batches(c.names)
	hung := &hungDirs{}
	for worker := range min(4, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < len(starts)-1; i = int(next.Add(1) - 1) {
				from, to := starts[i], starts[i+1]
				s.r.readBatch(ctx, c, fates, from, to, worker, hung)
			}
		})
	}
	wg.Wait()
	s.complain(hung.errs...)
	s.postpone(c, fates)
}

// postpone moves to the next chunk what this one had no room for, and drops what is gone.
func (s *Sweep) postpone(c *Chunk, fates []fate) {
	n := 0
	for i, e := range c.names {
		switch fates[i] {
		case read:
			c.files[n] = c.files[i]
			n++
		case later:
			s.later = append(s.later, e)
			e.dir.Ref()
		case gone:
		}
	}
	c.caches = c.caches && len(s.later) == 0 // what a later cache file has is looked up
	c.names, c.files = nil, c.files[:n]
}

// batches cuts the names into batches of one directory each.
func batches(names []chunkName) []int {
	var starts []int
	for i := range names {
		if len(starts) == 0 {
			starts = append(starts, 0)
		}
		if from := starts[len(starts)-1]; i > from && (i-from == batchSize || names[i].dir != names[from].dir) {
			starts = append(starts, i)
		}
	}
	return append(starts, len(names))
}

// hungDirs are the directories of a chunk that did not answer: the rest of each is not read.
type hungDirs struct {
	mu   sync.Mutex
	dirs map[*dirHandle]error
	errs []error
}

func (h *hungDirs) of(d *dirHandle) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirs[d]
}

func (h *hungDirs) add(d *dirHandle, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirs == nil {
		h.dirs = map[*dirHandle]error{}
	}
	h.dirs[d] = err
	h.errs = append(h.errs, fmt.Errorf("cannot read the files in %s: %w", clean.Name(d.path), err))
}

// readBatch reads the files of names[from:to], all of one directory.
func (r *Reader) readBatch(ctx context.Context, c *Chunk, fates []fate, from, to, worker int, hung *hungDirs) {
	d := c.names[from].dir
	names := c.names[from:to]
	room := c.room // a read that hangs must not use the chunk later
	var got readBatch
	err := hung.of(d)
	if err == nil {
		key := fmt.Sprintf("cni files %d %s", worker, d.path)
		got, err = bounded.On(ctx, r.Guard, key, d.Handle, func(fd int) readBatch {
			b := readBatch{make([]cni.File, len(names)), make([]fate, len(names))}
			var buf []byte
			for i, e := range names {
				if room != nil && room.Load() <= 0 {
					b.fates[i] = later
					continue
				}
				b.files[i] = cni.File{Kind: d.kind, Dir: d.path, Name: e.Name}
				buf, b.fates[i] = r.readFile(fd, e.Entry, buf, &b.files[i], room)
			}
			return b
		})
		if err != nil {
			hung.add(d, err)
		}
	}
	if err == nil {
		copy(c.files[from:], got.files)
		copy(fates[from:], got.fates)
		return
	}
	for i, e := range names {
		f := &c.files[from+i]
		*f = cni.File{Kind: d.kind, Dir: d.path, Name: e.Name}
		f.Set(cni.Tied, policy.Unknown, d.path, err.Error())
	}
}

// readFile reads one file and parses it. It returns the scratch buffer for the next.
func (r *Reader) readFile(dir int, e beneath.Entry, buf []byte, f *cni.File, room *atomic.Int64) ([]byte, fate) {
	if f.Kind == cni.Address && !f.Addr().IsValid() {
		// A configuration may name any directory as dataDir: only a reservation is opened.
		st, err := beneath.StatName(dir, e.Name)
		if beneath.Gone(err) {
			return buf, gone
		}
		f.ID, f.Changed = fileID(&st), fileChanged(&st)
		f.Parse(nil)
		return buf, read
	}
	fd, st, err := r.Open.At(dir).RootFile(e.Name, e.Kind)
	if beneath.Gone(err) {
		return buf, gone
	}
	f.ID, f.Changed = fileID(&st), fileChanged(&st)
	if err != nil {
		truth := policy.Unknown
		if _, ok := errors.AsType[beneath.NotRegularError](err); ok {
			truth = policy.No
		}
		f.Set(cni.Tied, truth, f.Dir, err.Error())
		return buf, read
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
		// A file that is too long, or cannot be read, may be of any container.
		f.Set(cni.Tied, policy.Unknown, f.Dir, err.Error())
		return buf, read
	}
	if f.Parse(text); room != nil && f.Facts[cni.Tied].Truth == policy.Yes {
		hold(f, fd, &st, text)
		room.Add(-int64(len(text)))
	}
	return text, read
}

// hold keeps what a restore needs. The remover compares all of it again before it removes the file.
func hold(f *cni.File, fd int, st *unix.Statx_t, text []byte) {
	label, err := label(fd)
	if err != nil {
		f.Err = err.Error()
	}
	f.Mode, f.Owner = uint32(st.Mode&0o7777), [2]uint32{st.Uid, st.Gid}
	f.Mtime = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	f.Label, f.Data = label, bytes.Clone(text)
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

func fileID(st *unix.Statx_t) cni.FileID {
	if st.Mode == 0 {
		return cni.FileID{}
	}
	return cni.FileID{Dev: beneath.DevOf(st), Ino: st.Ino, Size: int64(min(st.Size, 1<<62)), Ctime: beneath.Nanos(st.Ctime)}
}

// fileChanged is the later of a file's change and modification times, zero where they are
// not known.
func fileChanged(st *unix.Statx_t) time.Time {
	if st.Mode == 0 {
		return time.Time{}
	}
	return time.Unix(0, max(beneath.Nanos(st.Ctime), beneath.Nanos(st.Mtime)))
}
