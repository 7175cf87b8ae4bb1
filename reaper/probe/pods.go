package probe

import (
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

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// listing is the pods directory: its handle, and every name in it.
type listing struct {
	root, pods *bounded.Handle
	names      []beneath.Entry // sorted
}

// listed is a listing or why there is none.
type listed struct {
	listing
	err error
}

func (l listed) Discard() {
	l.root.Drop()
	l.pods.Drop()
}

// mostNames bounds the pods directory; a node runs some hundred pods.
const mostNames = 1_000_000

// list opens the root directory, which the administrator chose and which may lie behind a
// symlink, and below it the pods directory, which must be none. pods may be a mount point:
// some nodes give it a disk of its own.
func (p *Probe) list(ctx context.Context) (listing, error) {
	a, err := bounded.Do(ctx, p.guard, "pods directory", func() listed {
		l, err := p.readListing()
		return listed{l, err}
	})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return listing{}, fmt.Errorf("cannot list the pods directory %s/pods: %w", p.cfg.RootDir, err)
	}
	return a.listing, nil
}

func (p *Probe) readListing() (listing, error) {
	var l listing
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(p.cfg.RootDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return l, err
	}
	root := bounded.NewHandle(fd)
	fd, err = p.open.Cross(root.FD, "pods")
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if st, serr := beneath.StatName(root.FD, "pods"); serr == nil {
			err = fmt.Errorf("it is %s: %w", beneath.TypeName(st.Mode), err)
		}
	}
	if err != nil {
		root.Drop()
		return l, err
	}
	pods := bounded.NewHandle(fd)
	names, err := beneath.List(fd, mostNames)
	if err != nil {
		root.Drop()
		pods.Drop()
		return l, err
	}
	slices.SortFunc(names, func(a, b beneath.Entry) int { return strings.Compare(a.Name, b.Name) })
	return listing{root, pods, names}, nil
}

// podRead is what one pod directory says by itself.
type podRead struct {
	directory, ownMount policy.Fact
	id                  policy.DirID
	changed             time.Time
	content             *content // nil where it was not read
	staging             staging
	gone                bool
	alive               string // why it was not read: what shows that the pod lives
	err                 error  // why it could not be read
}

// reading is one directory to read: a pod, or a parked pod in quarantine.
type reading struct {
	parent   *bounded.Handle
	name     string
	kind     uint8
	origin   string
	hosts    bool
	uid      parsers.PodUID    // "" where the name is none: nothing is looked at
	recorded map[string]string // vol_data.json that the record holds
	skip     string            // why the content must not be walked
	alive    string            // why it need not be
	counts   *counting
}

var scratch = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// read opens and walks one directory.
func (p *Probe) read(ctx context.Context, r reading, parent int, csi *bounded.Handle) *podRead {
	out := &podRead{}
	out.directory.Origin, out.ownMount.Origin = r.origin, r.origin
	fd, err := p.open.Dir(parent, r.name)
	if err != nil {
		p.notOpened(out, r, parent, err)
		return out
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	if err != nil {
		out.err = beneath.PathError("statx", r.name, err)
		out.directory.Detail, out.ownMount.Detail = out.err.Error(), out.err.Error()
		return out
	}
	out.directory.Truth, out.ownMount.Truth = policy.Yes, policy.No
	out.identify(&st)
	if r.alive != "" {
		out.alive = r.alive
		return out
	}
	if out.err = p.subvolume(parent, &st, r.origin); out.err != nil {
		return out
	}
	if r.skip != "" {
		out.err = errors.New(r.skip)
		return out
	}
	buf, ok := scratch.Get().(*[32 << 10]byte)
	if !ok {
		buf = new([32 << 10]byte)
	}
	defer scratch.Put(buf)
	// A third of the walk's time is for counting: on a cold disk a volume would take all of it.
	until := time.Now().Add(p.guard.Limit() / 4) //nolint:forbidigo // as a context's deadline
	out.content = readContent(ctx, p.open, fd, &st, bounds{
		buf: buf[:], each: p.entries, counts: r.counts, until: until, etc: r.hosts, origin: r.origin,
	})
	dir := -1
	if csi != nil {
		dir = csi.FD
	}
	out.staging = stagingOf(p.open, dir, out.content, r.recorded)
	return out
}

// subvolume says why a directory that was opened across no mount is not one like others: it has
// another device than the one above. rename(2) moves a subvolume of btrfs, and rmdir(2) refuses it.
func (p *Probe) subvolume(parent int, st *unix.Statx_t, path string) error {
	above, err := p.stat(parent)
	if err != nil {
		return beneath.PathError("statx", path, err)
	}
	if beneath.DevOf(&above) == beneath.DevOf(st) {
		return nil
	}
	return fmt.Errorf("%s is a btrfs subvolume, which is not removed as a directory is: see whose data it has, "+
		"then btrfs subvolume delete '%[1]s'", path)
}

// notOpened says why a name is no directory that can be read.
func (p *Probe) notOpened(out *podRead, r reading, parent int, err error) {
	out.err = err
	switch {
	case beneath.Gone(err):
		// Nothing is there, so nothing is left to read.
		out.gone, out.err, out.content = true, nil, &content{}
		out.staging = stagingOf(p.open, -1, out.content, r.recorded)
		out.directory.Truth, out.directory.Detail = policy.No, "it is not there"
		out.ownMount.Truth = policy.No
	case errors.Is(err, unix.EXDEV):
		out.ownMount.Truth, out.ownMount.Detail = policy.Yes, "it is a mount point"
		if r.kind == unix.DT_DIR {
			out.directory.Truth = policy.Yes
		} else {
			out.directory.Truth, out.directory.Detail = policy.No, "a mount point that is no directory"
		}
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		out.err, out.content = nil, &content{byKey: map[rowKey]int{}}
		out.directory.Truth, out.directory.Detail = policy.No, "it is no directory"
		out.ownMount.Truth = policy.No
		if st, err := beneath.StatName(parent, r.name); err == nil {
			out.directory.Detail = "it is " + beneath.TypeName(st.Mode)
			out.identify(&st)
			out.content.add(".", contents.ClassData, blocksOf(&st), 1)
		}
	default:
		out.directory.Detail, out.ownMount.Detail = err.Error(), err.Error()
	}
}

// identify takes over what tells this directory from another of its name, and the later
// of birth and change: a rename or a new child changes the one, a copy keeps neither.
func (out *podRead) identify(st *unix.Statx_t) {
	changed := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	out.id = policy.DirID{Dev: beneath.DevOf(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		born := time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
		out.id.Btime = born.UnixNano()
		if born.After(changed) {
			changed = born
		}
	}
	out.changed = changed
}

// fact answers whether the content could be read and classed.
func (out *podRead) fact() policy.Fact {
	f := policy.Fact{Origin: out.directory.Origin}
	switch {
	case out.gone:
		f.Detail = "it is not there"
	case out.err != nil:
		f.Detail = out.err.Error()
	case out.alive != "":
		f.Detail = out.alive
	case out.content == nil:
		f.Detail = "it was not read"
	case out.content.err != nil:
		f.Detail = out.content.err.Error()
	default:
		f.Truth = policy.Yes
		if out.content.mount != "" {
			f.Detail = "not entered: the mount point " + out.content.mount
		}
	}
	return f
}

// mostHangs is how many pods of one look may hang before the rest is left to the next
// look, which passes them over: a look ends in bounded time whatever hangs.
const mostHangs = 4

// readAll reads the directories, each guarded for itself, so that one that hangs costs
// nobody else's facts.
func (p *Probe) readAll(ctx context.Context, all []reading, csi *bounded.Handle) []*podRead {
	out := make([]*podRead, len(all))
	var next, hangs atomic.Int64
	var wg sync.WaitGroup
	inTime, cancel := context.WithTimeout(ctx, p.guard.Limit())
	defer cancel()
	counts := newCounting(inTime)
	for range min(4, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				r := all[i]
				r.counts = counts
				if r.uid == "" {
					out[i] = &podRead{}
					continue
				}
				if r.parent == nil {
					// No quarantine, or none that could be opened: a disk that is not mounted, or
					// another --quarantine-dir. It does not mean that the entry is gone.
					out[i] = unread(r, errNoQuarantine)
					continue
				}
				err := context.Cause(ctx)
				if err == nil && hangs.Load() >= mostHangs {
					err = errors.New("not read, since other pods hang")
				}
				if err == nil {
					out[i], err = p.readGuarded(ctx, r, csi)
				}
				if errors.Is(err, bounded.ErrHangs) {
					hangs.Add(1)
				}
				if err != nil {
					out[i] = unread(r, err)
				}
			}
		})
	}
	wg.Wait()
	return out
}

var errNoQuarantine = errors.New("the quarantine cannot be opened")

// find looks a name up in the listing.
func (l listing) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l.names, name, func(d beneath.Entry, name string) int { return strings.Compare(d.Name, name) })
}

func (p *Probe) readGuarded(ctx context.Context, r reading, csi *bounded.Handle) (*podRead, error) {
	if csi != nil {
		csi.Hold()
	}
	read, err := bounded.On(ctx, p.guard, r.origin, r.parent, func(fd int) *podRead {
		defer csi.Drop()
		// A walk that is slow and does not hang ends by itself, before it counts as hung.
		ctx, cancel := context.WithTimeout(ctx, p.guard.Limit()*3/4)
		defer cancel()
		return p.read(ctx, r, fd, csi)
	})
	if errors.Is(err, bounded.ErrStuck) {
		csi.Drop()
	}
	return read, err
}

func unread(r reading, err error) *podRead {
	out := &podRead{err: fmt.Errorf("cannot read %s: %w", r.origin, err)}
	f := policy.Fact{Origin: r.origin, Detail: out.err.Error()}
	out.directory, out.ownMount = f, f
	return out
}
