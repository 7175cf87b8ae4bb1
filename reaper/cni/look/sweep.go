package look

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// usualChunk is how many files are read before the node is asked. A chunk costs one request to the runtime, the
// cgroups and so on (some 50 ms on a busy node), and about a KiB of memory for each file, besides its content. With
// 4,096 files the requests cost less than the reading.
const usualChunk = 4096

func (r *Reader) chunk() int { return cmp.Or(r.Chunk, usualChunk) }

// Sweep is one pass over the CNI directories. It reads the addresses of host-local first. It reads the caches of
// libcni last, since they identify the owners of the other files, and the files of a chunk may be removed before the
// next chunk is read. Only one goroutine may use it.
//
// All files of one sandbox get the same answers, also in different chunks: answers are about a container ID, which
// never exists again, and one that was listed counts as listed for a hold.
type Sweep struct {
	r     *Reader
	dirs  []directory // still to read; the first may be open
	open  *openDir
	conf  netConf
	begun bool
	// claims are the namespaces in NetnsDirs with an owner: according to a cache file, the runtime or PID 1.
	claims map[string]bool
	// asked are the sandboxes whose namespace the runtime was asked for.
	asked    map[string]bool
	podNets  map[string]bool // networks in the cache files of pods
	contents bool            // files have the values that a restore needs
	caches   bool            // reading libcni's caches has begun
	errors   []string
}

// chunk holds the files that were read together.
type chunk struct {
	at     policy.Instant
	dir    *bounded.Handle // the first directory, or nil
	files  []cni.File
	caches bool // it has all files of libcni's caches
}

// SweepCNI returns the looks of one sweep.
func (r *Reader) SweepCNI(ctx context.Context, contents bool) iter.Seq[cni.Look] {
	return func(yield func(cni.Look) bool) {
		s := r.sweep(contents)
		defer s.Close()
		for {
			if look, ok := s.Next(ctx); !ok || !yield(look) {
				return
			}
		}
	}
}

// sweep begins a sweep. Only Next reads. With contents each file has what a restore needs, in memory: a chunk ends
// after mostContent bytes of it.
func (r *Reader) sweep(contents bool) *Sweep {
	return &Sweep{r: r, contents: contents, claims: map[string]bool{}, asked: map[string]bool{}, podNets: map[string]bool{}}
}

// Close closes the sweep's open directories.
func (s *Sweep) Close() {
	if s.open != nil {
		s.open.Unref()
	}
	s.open, s.dirs = nil, nil
}

// Next returns the next chunk, and false when all was read or ctx has ended. It returns in bounded time: a fact
// without an answer by then is Unknown, and a directory that hangs is skipped and reported.
func (s *Sweep) Next(ctx context.Context) (cni.Look, bool) {
	c := s.read(ctx)
	defer c.dir.Unref()
	if ctx.Err() != nil || len(c.files)+len(s.errors) == 0 {
		return cni.Look{}, false
	}
	if len(c.files) > 0 && s.conf.err != nil && !s.conf.reported { // without files the networks do not matter
		s.addErrors(s.conf.err)
		s.conf.reported = true
	}
	look := s.look(ctx, c, s.r.Node.Containers(ctx, c.dir))
	return look, ctx.Err() == nil
}

// findDirs finds the directories to read: one for each network of host-local, and the caches.
func (s *Sweep) findDirs(ctx context.Context) {
	s.conf = s.r.readConfs(ctx)
	if errors.Is(s.conf.err, bounded.ErrHangs) || errors.Is(s.conf.err, bounded.ErrStuck) {
		s.addErrors(s.conf.err) // the process cannot end while that directory hangs
		s.conf.reported = true
	}
	var bases []string
	for _, base := range slices.Concat(s.r.DataDirs, s.conf.dataDirs) {
		base = filepath.Clean(base)
		if !filepath.IsAbs(base) || slices.Contains(bases, base) {
			continue
		}
		bases = append(bases, base)
		networks, err := s.r.networks(ctx, base)
		s.addErrors(err)
		for _, name := range networks {
			s.dirs = append(s.dirs, directory{cni.Address, base, []string{name}})
		}
	}
	s.dirs = append(s.dirs, s.r.cacheDirs()...)
}

// read reads the next chunk, from as many directories as it needs.
func (s *Sweep) read(ctx context.Context) chunk {
	c := chunk{at: s.r.Now()}
	var room *atomic.Int64
	if s.contents {
		room = new(atomic.Int64)
		room.Store(mostContent)
	}
	if !s.begun {
		s.begun = true
		s.findDirs(ctx)
	}
	first := !s.caches
	for len(s.dirs) > 0 && len(c.files) < s.r.chunk() && (room == nil || room.Load() > 0) && ctx.Err() == nil {
		d := s.dirs[0]
		s.caches = s.caches || d.kind == cni.Cache
		var err error
		if s.open == nil {
			s.open, err = s.r.openDir(ctx, d)
		}
		if err == nil {
			if c.dir == nil {
				c.dir = s.open.Handle
				c.dir.Ref()
			}
			var files []cni.File
			files, err = s.r.readSome(ctx, s.open, min(batchSize, s.r.chunk()-len(c.files)), room, nil)
			c.files = append(c.files, files...)
		}
		s.addErrors(cannotRead(clean.Name(d.path()), err))
		if err == nil && !s.open.done {
			continue
		}
		if s.open != nil {
			s.open.Unref()
		}
		s.open, s.dirs = nil, s.dirs[1:]
	}
	c.caches = first && len(s.dirs) == 0
	return c
}

// addErrors adds errors to the next look.
func (s *Sweep) addErrors(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.errors = append(s.errors, err.Error())
		}
	}
}
