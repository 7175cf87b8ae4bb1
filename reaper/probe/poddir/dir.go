package poddir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Dir is one directory to read: a pod's, or a parked pod's in quarantine.
type Dir struct {
	UID    parsers.PodUID // "" if the name is not a UID: then nothing is read
	Parked bool           // it is an entry of the quarantine
	Skip   string         // why the content must not be walked
	Alive  string         // why the content need not be walked

	parent   *bounded.Handle
	name     string
	kind     uint8
	origin   string
	hosts    bool              // read etc-hosts
	recorded map[string]string // the vol_data.json in the manifest of the entry
	counts   *counting
}

// Pod returns an entry of the pods directory.
func (r *Reader) Pod(d *Dirs, e beneath.Entry) Dir {
	uid, _ := parsers.ParsePodUID(e.Name)
	return Dir{UID: uid, parent: d.Pods, name: e.Name, kind: e.Kind, origin: r.RootDir + "/pods/" + clean.Name(e.Name), hosts: true}
}

// Parked returns an entry of the quarantine.
func (r *Reader) Parked(d *Dirs, e policy.EntryState) Dir {
	return Dir{
		UID: e.UID, Parked: true, parent: d.Quarantine, name: e.Entry, kind: unix.DT_DIR, recorded: e.VolData,
		origin: r.quarantined(e), hosts: e.PodName == "",
	}
}

// quarantined returns the path of an entry, for messages.
func (r *Reader) quarantined(e policy.EntryState) string {
	return filepath.Join(r.QuarantineDir, clean.Name(e.Entry))
}

// mostHangs is how many pods of one look may hang before Read leaves the rest to the next look, which skips
// those that hang. So a look ends in bounded time.
const mostHangs = 4

// Read reads the directories, each in bounded time, so that one that hangs affects no other.
func (r *Reader) Read(ctx context.Context, dirs *Dirs, all []Dir) []*Answer {
	out := make([]*Answer, len(all))
	var next, hangs atomic.Int64
	var wg sync.WaitGroup
	inTime, cancel := context.WithTimeout(ctx, r.Guard.Limit())
	defer cancel()
	counts := newCounting(inTime)
	for range min(4, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			run := &bounded.Runner[*Answer]{Guard: r.Guard}
			defer run.Close()
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				d := all[i]
				d.counts = counts
				if d.UID == "" {
					out[i] = &Answer{}
					continue
				}
				if d.parent == nil {
					// The quarantine may be on a disk that is not mounted, or elsewhere: the entry is not gone.
					out[i] = unread(d, errNoQuarantine)
					continue
				}
				err := context.Cause(ctx)
				if err == nil && hangs.Load() >= mostHangs {
					err = errors.New("not read, since other pods hang")
				}
				if err == nil {
					out[i], err = r.readGuarded(ctx, run, d, dirs.csi)
				}
				if errors.Is(err, bounded.ErrHangs) {
					hangs.Add(1)
				}
				if err != nil {
					out[i] = unread(d, err)
				}
			}
		})
	}
	wg.Wait()
	return out
}

var errNoQuarantine = errors.New("the quarantine cannot be opened")

func (r *Reader) readGuarded(ctx context.Context, run *bounded.Runner[*Answer], d Dir, csi *bounded.Handle) (*Answer, error) {
	if csi != nil {
		csi.Ref()
	}
	read, err := run.On(ctx, d.origin, d.parent, func(fd int) *Answer {
		defer csi.Unref()
		return r.read(ctx, d, r.Open.At(fd), csi)
	})
	if errors.Is(err, bounded.ErrStuck) {
		csi.Unref()
	}
	return read, err
}

// read opens and walks one directory.
func (r *Reader) read(ctx context.Context, d Dir, parent *beneath.Dir, csi *bounded.Handle) *Answer {
	out := &Answer{}
	out.Directory.Origin, out.OwnMount.Origin = d.origin, d.origin
	dir, err := parent.Walk(d.name)
	if err != nil {
		r.notOpened(out, d, parent, err)
		return out
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		out.Err = beneath.PathError("statx", d.name, err)
		out.Directory.Detail, out.OwnMount.Detail = out.Err.Error(), out.Err.Error()
		return out
	}
	out.Directory.Truth, out.OwnMount.Truth = policy.Yes, policy.No
	out.identify(&st)
	if d.Alive != "" {
		out.Alive = d.Alive
		return out
	}
	if out.Err = r.subvolume(parent, &st, d.origin); out.Err != nil {
		return out
	}
	if d.Skip != "" {
		out.Err = errors.New(d.Skip)
		return out
	}
	// A slow walk ends before it counts as hung. It may count for a third of its time, since a
	// volume on a cold disk would take all of it.
	now := time.Now()
	until, end := now.Add(r.Guard.Limit()/4), now.Add(r.Guard.Limit()*3/4)
	out.Content = readContent(ctx, dir, &st, bounds{
		each: cmp.Or(r.Entries, mostEntries), counts: d.counts, until: until, end: end, etc: d.hosts, origin: d.origin,
	})
	var staged *beneath.Dir
	if csi != nil {
		staged = r.Open.At(csi.FD)
	}
	out.Staging = stagingOf(staged, out.Content, d.recorded)
	return out
}

// subvolume returns an error for a btrfs subvolume: a directory that is no mount point and has another device than its
// parent. rename(2) moves it, but rmdir(2) refuses it.
func (r *Reader) subvolume(parent *beneath.Dir, st *unix.Statx_t, path string) error {
	stat := r.stat
	if stat == nil {
		stat = beneath.Stat
	}
	above, err := stat(parent.FD())
	if err != nil {
		return beneath.PathError("statx", path, err)
	}
	if beneath.DevOf(&above) == beneath.DevOf(st) {
		return nil
	}
	return fmt.Errorf("%s is a btrfs subvolume, which cannot be removed like a directory: see whose data it has, "+
		"then btrfs subvolume delete %s", path, clean.Shell(path))
}
