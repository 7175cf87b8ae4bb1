package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// usualChunk is how many names are read before anything is asked. A chunk costs one question
// to the runtime, the cgroups and so on (some 50 ms on a busy node), and about a KiB for
// each of its files, besides what they contain: 4,096 make the questions cheaper than the reading,
// and a sweep of 300,000 files needs no more memory than one of 4,096.
const usualChunk = 4096

func (r *Reader) chunk() int { return cmp.Or(r.Chunk, usualChunk) }

// Sweep is one pass over the directories in which CNI leaves files: the addresses that
// host-local has given out first, the caches of libcni last, since they tell whose the rest
// is, and a chunk may be gone by the time the next is read. It is used by one goroutine.
//
// Each chunk is read, with the content of its files, before the runtime and the node are
// asked: a sandbox that is made in between is then in the answer, and not in the chunk.
// Every answer is about a container ID, so that all files of one sandbox, its two addresses
// among them, get the same answers in one chunk; and in different chunks, too, since an ID
// that is gone never comes back, and one that was listed counts as listed for a hold.
type Sweep struct {
	r     *Reader
	dirs  []directory // those still to read, the first of which may be open
	open  *currentDir
	conf  netConf
	begun bool
	// claims are the namespaces in NetnsDirs that are a container's, as a cache file says, or
	// one that lives, as the runtime or its processes show.
	claims map[string]bool
	// asked are the sandboxes of which the runtime was asked for the namespace, and told those
	// of which it told.
	asked, told map[string]bool
	podNets     map[string]bool // networks that a cache file of a pod is of
	contents    bool            // files come with what a restore needs
	later       []chunkName     // what the chunk before had no room for; each holds its directory
	caches      bool            // those of libcni have been begun
	errors      []string
}

// directory is one directory of a sweep.
type directory struct {
	kind cni.Kind
	// base was named by the administrator and may lie behind symlinks; names below it are
	// taken one step at a time.
	base  string
	names []string
	path  string // base and names, as it is told to people
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
	directory
	*bounded.Handle
}

// Sweep begins a pass. Nothing is read until Read. With contents each file comes with all that a
// restore needs, in memory: a chunk holds mostContent bytes of them, and the next has the rest.
func (r *Reader) Sweep(contents bool) *Sweep {
	return &Sweep{r: r, contents: contents, claims: map[string]bool{}, asked: map[string]bool{}, told: map[string]bool{}, podNets: map[string]bool{}}
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

// Read reads the next chunk, and returns false when all was read or ctx has ended. It returns in
// bounded time whatever hangs: a directory that hangs is left out and told. The caller closes the chunk.
func (s *Sweep) Read(ctx context.Context) (*Chunk, bool) {
	c := s.list(ctx)
	if ctx.Err() != nil || len(c.names)+len(s.errors) == 0 {
		c.Close()
		return nil, false
	}
	if len(c.names) > 0 && s.conf.err != nil && !s.conf.told { // where CNI left nothing, nobody asks whose it is
		s.complain(s.conf.err)
		s.conf.told = true
	}
	s.readChunk(ctx, c)
	return c, true
}

// Look puts together what is known of the files of a chunk: what was asked since it was read, and
// what this room finds at the node now. What does not answer in time is Unknown.
func (s *Sweep) Look(ctx context.Context, c *Chunk, a Asked) cni.Look {
	return s.judgeable(ctx, c, s.ask(ctx, c, a))
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

// Dir is a directory of the chunk, nil where it has none.
func (c *Chunk) Dir() *bounded.Handle {
	if len(c.dirs) == 0 {
		return nil
	}
	return c.dirs[0].Handle
}

// Close closes the directories of the chunk.
func (c *Chunk) Close() {
	for _, d := range c.dirs {
		d.Unref()
	}
}

// list reads the names of the next chunk, from as many directories as it takes.
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
			s.open, err = s.openDir(ctx, d)
			if err != nil || s.open == nil {
				s.complain(err)
				s.dirs = s.dirs[1:]
				continue
			}
		}
		end, err := s.listSome(ctx, c, d)
		s.complain(err)
		if end || err != nil {
			s.open.Unref()
			s.open, s.dirs = nil, s.dirs[1:]
		}
	}
	c.caches = whole && len(s.dirs) == 0
	return c
}

// openDir opens one directory; nil where it is not there.
func (s *Sweep) openDir(ctx context.Context, d directory) (*currentDir, error) {
	a, err := bounded.Do(ctx, s.r.Guard, "cni "+d.path, func() openedDir {
		fd, err := openDirectory(s.r.Open, d)
		if err != nil {
			return openedDir{err: err}
		}
		return openedDir{open: &currentDir{Handle: bounded.NewHandle(fd), names: beneath.NamesOf(fd, make([]byte, 32<<10))}}
	})
	if err == nil {
		err = a.err
	}
	if beneath.Gone(err) {
		return nil, nil // a directory that is not there holds nothing, and is no error
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", clean.Name(d.path), err)
	}
	return a.open, nil
}

// openedDir is an open directory or why there is none.
type openedDir struct {
	open *currentDir
	err  error
}

func (o openedDir) Discard() {
	if o.open != nil {
		o.open.Unref()
	}
}

// openDirectory opens the base by its path and steps down through no symlink. Each step may
// be a mount point: some nodes keep the caches on a tmpfs, so that a boot clears them.
func openDirectory(o *beneath.Opener, d directory) (int, error) {
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(d.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, beneath.PathError("open", d.base, err)
	}
	for _, name := range d.names {
		next, err := o.Cross(fd, name)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			if st, serr := beneath.StatName(fd, name); serr == nil {
				err = fmt.Errorf("it is %s: %w", beneath.TypeName(st.Mode), err)
			}
		}
		beneath.Close(fd)
		if err != nil {
			return -1, beneath.PathError("open", name, err)
		}
		fd = next
	}
	return fd, nil
}

// listSome reads names into the chunk and says whether the directory has ended.
func (s *Sweep) listSome(ctx context.Context, c *Chunk, d directory) (bool, error) {
	type some struct {
		names []beneath.Entry
		rest  beneath.Names
		end   bool
		err   error
	}
	open, room := s.open, s.r.chunk()-len(c.names)
	before := open.names
	a, err := bounded.On(ctx, s.r.Guard, "cni "+d.path, open.Handle, func(int) (a some) {
		a.rest = before
		for len(a.names) < room {
			e, ok, err := a.rest.Next()
			if !ok {
				a.end, a.err = err == nil, err
				break
			}
			if !skips(d, e) {
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
		o := &dirHandle{directory: d, Handle: open.Handle}
		c.dirs = append(c.dirs, o)
		c.names = slices.Grow(c.names, len(a.names))
		for _, e := range a.names {
			c.names = append(c.names, chunkName{e, o})
		}
	}
	if err != nil {
		err = fmt.Errorf("cannot read %s: %w", clean.Name(d.path), err)
	}
	return a.end, err
}

// mostErrors bounds the words of one look.
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
