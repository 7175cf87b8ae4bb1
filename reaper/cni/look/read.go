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
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/parse"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// batchSize is how many files are read at a time: so many are read within the patience even
// from a disk that takes ten milliseconds for each.
const batchSize = 512

// The longest files that are read; a reservation has 70 bytes or so.
const (
	longCache   = parse.MaxFile
	longAddress = 4 << 10
)

// mostContent bounds the contents that one chunk holds in memory: 5,000 usual cache files.
const mostContent = 8 << 20

// fileExtra is what was read of a file besides what policy is told.
type fileExtra struct {
	netns   string // the path of its network namespace, where it tells
	gone    bool
	later   bool // the chunk holds enough without it: it is read with the next
	sandbox bool // the runtime that wrote it calls its container a pod's sandbox
	tells   bool // it is of the format that tells these where they are
}

// readBatch is a batch that was read.
type readBatch struct {
	files []cni.Content
	extra []fileExtra
}

// readChunk reads the files of the chunk.
func (s *Sweep) readChunk(ctx context.Context, c *Chunk) {
	c.files = make([]cni.Content, len(c.names))
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
	s.postpone(c)
}

// postpone leaves to the next chunk what this one had no room for.
func (s *Sweep) postpone(c *Chunk) {
	n := 0
	for i, e := range c.names {
		if c.extra[i].later {
			s.later = append(s.later, e)
			e.dir.Ref()
			continue
		}
		c.names[n], c.files[n], c.extra[n] = e, c.files[i], c.extra[i]
		n++
	}
	c.caches = c.caches && len(s.later) == 0 // what a cache file tells is looked up
	c.names, c.files, c.extra = c.names[:n], c.files[:n], c.extra[:n]
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
	room := c.room // a read that hangs must not see what becomes of the chunk
	var read readBatch
	err := hung.of(d)
	if err == nil {
		key := fmt.Sprintf("cni files %d %s", worker, d.path)
		read, err = bounded.On(ctx, r.Guard, key, d.Handle, func(fd int) readBatch {
			b := readBatch{make([]cni.Content, len(names)), make([]fileExtra, len(names))}
			var buf []byte
			for i, e := range names {
				if b.extra[i].later = room != nil && room.Load() <= 0; b.extra[i].later {
					continue
				}
				buf = r.readFile(fd, &d.directory, e.Entry, buf, &b.files[i], &b.extra[i], room)
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
		f.File = cni.File{Kind: d.kind, Dir: d.path, Name: e.Name}
		f.Set(cni.Tied, policy.Unknown, d.path, err.Error())
	}
}

// readFile reads one file and says whose it is. buf is scratch, which it gives back.
func (r *Reader) readFile(dir int, d *directory, e beneath.Entry, buf []byte, c *cni.Content, x *fileExtra, room *atomic.Int64) []byte {
	f := &c.File
	f.Kind, f.Dir, f.Name = d.kind, d.path, e.Name
	if _, ok := parse.ParseHostLocal(e.Name, nil); d.kind == cni.Address && !ok {
		// A dataDir is whatever a configuration says: what is no reservation is not opened.
		st, err := beneath.StatName(dir, e.Name)
		x.gone = beneath.Gone(err)
		f.ID, f.Changed = fileID(&st), fileChanged(&st)
		tie(f, x, nil)
		return buf
	}
	fd, st, err := r.Open.RootFile(dir, e.Name, e.Kind)
	switch {
	case beneath.Gone(err):
		x.gone = true
		return buf
	case err != nil:
		f.ID, f.Changed = fileID(&st), fileChanged(&st)
		truth := policy.Unknown
		if _, ok := errors.AsType[beneath.NotRegularError](err); ok {
			truth = policy.No
		}
		f.Set(cni.Tied, truth, d.path, err.Error())
		return buf
	}
	defer beneath.Close(fd)
	f.ID, f.Changed = fileID(&st), fileChanged(&st)
	limit := int64(longCache)
	if d.kind == cni.Address {
		limit = longAddress
	}
	if buf == nil {
		buf = make([]byte, 0, 16<<10)
	}
	text, err := beneath.ReadInto(fd, buf[:0], int64(min(st.Size, 1<<40)), limit)
	if err != nil {
		// What is too long for any runtime, or cannot be read, might be anybody's.
		f.Set(cni.Tied, policy.Unknown, d.path, err.Error())
		return buf
	}
	if tie(f, x, text); room != nil && f.Facts[cni.Tied].Truth == policy.Yes {
		hold(c, fd, &st, text)
		room.Add(-int64(len(text)))
	}
	return text
}

// hold keeps what a restore needs. The remover compares all of it again before the file goes.
func hold(c *cni.Content, fd int, st *unix.Statx_t, text []byte) {
	label, err := label(fd)
	if err != nil {
		c.Err = err.Error()
	}
	c.Mode, c.Owner = uint32(st.Mode&0o7777), [2]uint32{st.Uid, st.Gid}
	c.Mtime = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	c.Label, c.Data = label, bytes.Clone(text)
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
