package cni

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	cnipolicy "github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// batchSize is how many files are read at a time: so many are read within the patience even
// from a disk that takes ten milliseconds for each.
const batchSize = 512

// The longest files that are read; a reservation has 70 bytes or so.
const (
	longCache   = cni.MaxFile
	longAddress = 4 << 10
)

// fileExtra is what was read of a file besides what policy is told.
type fileExtra struct {
	netns   string // the path of its network namespace, where it tells
	gone    bool
	sandbox bool // the runtime that wrote it calls its container a pod's sandbox
	tells   bool // it is of the format that tells these where they are
}

// readBatch is a batch that was read.
type readBatch struct {
	files []cnipolicy.File
	extra []fileExtra
}

// readChunk reads the files of the chunk.
func (s *Sweep) readChunk(ctx context.Context, c *Chunk) {
	c.files = make([]cnipolicy.File, len(c.names))
	c.extra = make([]fileExtra, len(c.names))
	var next atomic.Int64
	var wg sync.WaitGroup
	starts := batches(c.names)
	hung := &hungDirs{}
	for worker := range min(4, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < len(starts)-1; i = int(next.Add(1) - 1) {
				from, to := starts[i], starts[i+1]
				s.r.readBatch(ctx, c, from, to, worker, hung)
			}
		})
	}
	wg.Wait()
	s.complain(hung.errs...)
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

// hungDirs are the directories of a chunk that did not answer: the rest of each is left.
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
func (r *Reader) readBatch(ctx context.Context, c *Chunk, from, to, worker int, hung *hungDirs) {
	d := c.names[from].dir
	names := c.names[from:to]
	var read readBatch
	err := hung.of(d)
	if err == nil {
		key := fmt.Sprintf("cni files %d %s", worker, d.path)
		read, err = bounded.On(ctx, r.Guard, key, d.Handle, func(fd int) readBatch {
			b := readBatch{make([]cnipolicy.File, len(names)), make([]fileExtra, len(names))}
			var buf []byte
			for i, e := range names {
				b.files[i], b.extra[i], buf = r.readFile(fd, &d.directory, e.Entry, buf)
			}
			return b
		})
		if err != nil {
			hung.add(d, err)
		}
	}
	if err == nil {
		copy(c.files[from:], read.files)
		copy(c.extra[from:], read.extra)
		return
	}
	for i, e := range names {
		f := &c.files[from+i]
		*f = cnipolicy.File{Kind: d.kind, Dir: d.path, Name: e.Name}
		f.Set(cnipolicy.Tied, policy.Unknown, d.path, err.Error())
	}
}

// readFile reads one file and says whose it is. buf is scratch, which it gives back.
func (r *Reader) readFile(dir int, d *directory, e beneath.Entry, buf []byte) (cnipolicy.File, fileExtra, []byte) {
	f := cnipolicy.File{Kind: d.kind, Dir: d.path, Name: e.Name}
	var x fileExtra
	if _, ok := cni.ParseHostLocal(e.Name, nil); d.kind == cnipolicy.Address && !ok {
		// A dataDir is whatever a configuration says: what is no reservation is not opened.
		st, err := beneath.StatName(dir, e.Name)
		x.gone = beneath.Gone(err)
		f.ID, f.Changed = fileID(&st), fileChanged(&st)
		tie(&f, &x, nil)
		return f, x, buf
	}
	fd, st, err := r.Open.RootFile(dir, e.Name, e.Kind)
	switch {
	case beneath.Gone(err):
		x.gone = true
		return f, x, buf
	case err != nil:
		f.ID, f.Changed = fileID(&st), fileChanged(&st)
		truth := policy.Unknown
		if _, ok := errors.AsType[beneath.NotRegularError](err); ok {
			truth = policy.No
		}
		f.Set(cnipolicy.Tied, truth, d.path, err.Error())
		return f, x, buf
	}
	defer beneath.Close(fd)
	f.ID, f.Changed = fileID(&st), fileChanged(&st)
	limit := int64(longCache)
	if d.kind == cnipolicy.Address {
		limit = longAddress
	}
	if buf == nil {
		buf = make([]byte, 0, 16<<10)
	}
	text, err := beneath.ReadInto(fd, buf[:0], int64(min(st.Size, 1<<40)), limit)
	if err != nil {
		// What is too long for any runtime, or cannot be read, might be anybody's.
		f.Set(cnipolicy.Tied, policy.Unknown, d.path, err.Error())
		return f, x, buf
	}
	f.Sum = maphash.Bytes(sumSeed, text)
	tie(&f, &x, text)
	return f, x, text
}

// sumSeed is drawn anew by each process, so that nobody can write another content of the same sum.
var sumSeed = maphash.MakeSeed()

func fileID(st *unix.Statx_t) cnipolicy.FileID {
	if st.Mode == 0 {
		return cnipolicy.FileID{}
	}
	return cnipolicy.FileID{Dev: beneath.DevOf(st), Ino: st.Ino, Size: int64(min(st.Size, 1<<62)), Ctime: beneath.Nanos(st.Ctime)}
}

// fileChanged is the later of a file's change and modification times, zero where they are
// not known.
func fileChanged(st *unix.Statx_t) time.Time {
	if st.Mode == 0 {
		return time.Time{}
	}
	return time.Unix(0, max(beneath.Nanos(st.Ctime), beneath.Nanos(st.Mtime)))
}
