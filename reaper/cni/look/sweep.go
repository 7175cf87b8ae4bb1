package look

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// usualChunk is how many names are read before anything is asked. A chunk costs one question to the runtime, the cgroups and so on (some
// 50 ms on a busy node), and about a KiB for each of its files, besides what they contain: 4,096 make the questions cheaper than the
// reading, and a sweep of 300,000 files needs no more memory than one of 4,096.
const usualChunk = 4096

func (r *Reader) chunk() int { return cmp.Or(r.Chunk, usualChunk) }

// Sweep is one pass over the directories in which CNI leaves files: the addresses that host-local has given out first, the caches of
// libcni last, since they have the owners of the rest, and the files of a chunk may be removed before the next is read. It is used by
// one goroutine.
//
// Each chunk is read, with the content of its files, before the runtime and the node are asked: a sandbox that is made in between is
// then in the answer, and not in the chunk. Every answer is about a container ID, so all files of one sandbox, its two addresses among
// them, get the same answers in one chunk; and in different chunks, too, since an ID that is gone never comes back, and one that was
// listed counts as listed for a hold.
type Sweep struct {
	r     *Reader
	dirs  []directory // those still to read, the first of which may be open
	open  *currentDir
	conf  netConf
	begun bool
	// claims are the namespaces in NetnsDirs with an owner: a container by a cache file, or a living one by the runtime or its processes.
	claims map[string]bool
	// asked are the sandboxes whose namespace the runtime was asked for, and reported those with an answer.
	asked, reported map[string]bool
	podNets         map[string]bool // networks that a cache file of a pod is of
	contents        bool            // files come with what a restore needs
	later           []chunkName     // what the chunk before had no room for; each keeps its directory open
	caches          bool            // those of libcni have been begun
	errors          []string
}

// currentDir is the directory that is read now.
type currentDir struct {
	*bounded.Handle
	names beneath.Names
}

// chunkName is one name of a chunk.
type chunkName struct {
	beneath.Entry
	dir *dirHandle
}

// dirHandle is a directory of a chunk, open until the chunk is done.
type dirHandle struct {
	*bounded.Handle
	kind cni.Kind
	path string
}

// Chunk is what was read of some files.
type Chunk struct {
	at     policy.Instant
	dirs   []*dirHandle
	names  []chunkName
	files  []cni.File
	room   *atomic.Int64 // bytes of content for which it has room yet, nil where it holds none
	caches bool          // it holds everything that libcni's caches hold
}

func (c *Chunk) close() {
	for _, d := range c.dirs {
		d.Unref()
	}
}

// SweepCNI begins a sweep.
func (r *Reader) SweepCNI(contents bool) cni.Looks { return r.sweep(contents) }

// sweep begins a sweep. Nothing is read until Next. With contents each file comes with all that a restore needs, in memory: a chunk holds
// mostContent bytes of them, and the next has the rest.
func (r *Reader) sweep(contents bool) *Sweep {
	return &Sweep{r: r, contents: contents, claims: map[string]bool{}, asked: map[string]bool{}, reported: map[string]bool{}, podNets: map[string]bool{}}
}

// Close closes what the sweep has open.
func (s *Sweep) Close() {
	if s.open != nil {
		s.open.Unref()
	}
	for _, e := range s.later {
		e.dir.Unref()
	}
	s.open, s.dirs, s.later = nil, nil, nil
}

// Next returns the next chunk, and false when all was read or ctx has ended. It returns in bounded time: what has not
// answered by then is Unknown, and a directory that hangs is left out and reported.
func (s *Sweep) Next(ctx context.Context) (cni.Look, bool) {
	c := s.list(ctx)
	defer c.close()
	if ctx.Err() != nil || len(c.names)+len(s.errors) == 0 {
		return cni.Look{}, false
	}
	if len(c.names) > 0 && s.conf.err != nil && !s.conf.reported { // without files the networks do not matter
		s.complain(s.conf.err)
		s.conf.reported = true
	}
	s.readChunk(ctx, c)
	var dir *bounded.Handle
	if len(c.dirs) > 0 {
		dir = c.dirs[0].Handle
	}
	look := s.look(ctx, c, s.r.Node.Containers(ctx, dir))
	return look, ctx.Err() == nil
}

// findDirs finds what there is to read: the caches, and the networks that host-local has given addresses of.
func (s *Sweep) findDirs(ctx context.Context) {
	s.conf = s.r.readConfs(ctx)
	if errors.Is(s.conf.err, bounded.ErrHangs) || errors.Is(s.conf.err, bounded.ErrStuck) {
		s.complain(s.conf.err) // the process cannot end before that directory answers, so it is named
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
		s.complain(err)
		for _, name := range networks {
			s.dirs = append(s.dirs, directory{cni.Address, base, []string{name}})
		}
	}
	s.dirs = append(s.dirs, s.r.cacheDirs()...)
}

// list reads the names of the next chunk, from as many directories as it needs.
func (s *Sweep) list(ctx context.Context) *Chunk {
	c := &Chunk{at: s.r.Now(), names: s.later}
	if s.contents {
		c.room = new(atomic.Int64)
		c.room.Store(mostContent)
	}
	for _, e := range s.later {
		c.dirs = append(c.dirs, e.dir)
	}
	s.later = nil
	if !s.begun {
		s.begun = true
		s.findDirs(ctx)
	}
	whole := !s.caches
	for len(s.dirs) > 0 && len(c.names) < s.r.chunk() && ctx.Err() == nil {
		d := s.dirs[0]
		s.caches = s.caches || d.kind == cni.Cache
		if s.open == nil {
			var err error
			if s.open, err = s.openDir(ctx, d); err != nil {
				s.complain(cannotRead(clean.Name(d.path()), err))
				s.dirs = s.dirs[1:]
				continue
			}
		}
		end, err := s.listSome(ctx, c, d)
		s.complain(cannotRead(clean.Name(d.path()), err))
		if end || err != nil {
			s.open.Unref()
			s.open, s.dirs = nil, s.dirs[1:]
		}
	}
	c.caches = whole && len(s.dirs) == 0
	return c
}

func (s *Sweep) openDir(ctx context.Context, d directory) (*currentDir, error) {
	open, err := do(ctx, s.r.Guard, "cni "+d.path(), func() (*currentDir, error) {
		fd, err := d.open(s.r.Open)
		if err != nil {
			return nil, err
		}
		return &currentDir{Handle: bounded.NewHandle(fd), names: beneath.NamesOf(fd, make([]byte, 32<<10))}, nil
	})
	if err != nil {
		return nil, err
	}
	return open, nil
}

// listSome reads names into the chunk and reports whether the directory has ended.
func (s *Sweep) listSome(ctx context.Context, c *Chunk, d directory) (bool, error) {
	type some struct {
		names []beneath.Entry
		rest  beneath.Names
		end   bool
		err   error
	}
	open, room := s.open, s.r.chunk()-len(c.names)
	before := open.names
	a, err := bounded.On(ctx, s.r.Guard, "cni "+d.path(), open.Handle, func(int) (a some) {
		a.rest = before
		for len(a.names) < room {
			e, ok, err := a.rest.Next()
			if !ok {
				a.end, a.err = err == nil, err
				break
			}
			if !d.skips(e) {
				a.names = append(a.names, e)
			}
		}
		return a
	})
	if err == nil {
		open.names, err = a.rest, a.err
	}
	if len(a.names) > 0 {
		open.Ref()
		c.add(&dirHandle{open.Handle, d.kind, d.path()}, a.names)
	}
	return a.end, err
}

// add adds names of a directory, which the chunk closes.
func (c *Chunk) add(d *dirHandle, names []beneath.Entry) {
	c.dirs = append(c.dirs, d)
	c.names = slices.Grow(c.names, len(names))
	for _, e := range names {
		c.names = append(c.names, chunkName{e, d})
	}
}

// mostErrors bounds the errors of one look.
const mostErrors = 50

func (s *Sweep) complain(errs ...error) {
	for _, err := range errs {
		if err == nil || len(s.errors) > mostErrors || slices.Contains(s.errors, err.Error()) {
			continue
		}
		if len(s.errors) == mostErrors {
			err = errors.New("and more that could not be read")
		}
		s.errors = append(s.errors, err.Error())
	}
}
