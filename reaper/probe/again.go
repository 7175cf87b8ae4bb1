package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// A directory that was made again while its elder was parked: does anything use it? Mounts
// and open files are told from those of the elder by the name: that one is UID.n by now,
// in every path that the kernel shows. A text that is neither counts as a use.

// split takes the entries that rest out of those that are parked, and wants the pods of both.
func (l *gathering) split(all []policy.EntryState) (parked, resting []policy.EntryState) {
	for _, e := range all {
		l.wanted[e.UID] = true
		if e.Rests {
			resting = append(resting, e)
		} else {
			parked = append(parked, e)
		}
	}
	return parked, resting
}

// unopened stands for an entry that is left as it is: nobody looks into it.
func (l *gathering) unopened(e policy.EntryState) *podRead {
	r := &podRead{err: errors.New("not read: it rests")}
	r.directory.Origin = filepath.Join(l.probe.cfg.QuarantineDir, clean.Name(e.Entry))
	r.directory.Detail, r.ownMount = r.err.Error(), r.directory
	return r
}

// readAgain looks into the directories that were made again of parked pods.
func (l *gathering) readAgain(ctx context.Context, parked []policy.EntryState) {
	for _, e := range parked {
		if _, ok := l.lists(string(e.UID)); !ok {
			continue
		}
		if l.again == nil {
			l.again = map[parsers.PodUID]policy.Fact{}
		}
		l.again[e.UID] = l.probe.againFact(ctx, l.pods, e.UID)
	}
}

// used puts together what shows that a directory that was made again is used, but for what
// the runtime says.
func (l *gathering) used(uid parsers.PodUID) policy.Fact {
	return policy.UsedAgain(l.again[uid], l.mounts.Use(uid), l.openFiles.use(uid))
}

// Used asks, at this moment and outside of a look, whether anything uses pods/UID, which was
// made again after the moment since: what a rename of it waits for.
func (p *Probe) Used(ctx context.Context, uid parsers.PodUID, since policy.Instant) policy.Fact {
	l, err := p.list(ctx)
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	defer l.root.Drop()
	defer l.pods.Drop()
	w := parsers.PodSet{uid: true}
	runtime := p.askRuntime(ctx)
	e := policy.Evidence{UID: uid}
	content, m, files := p.againFact(ctx, l.pods, uid), p.readMounts(ctx, w), p.openFiles(ctx, l.pods, nil, w)
	e.Facts[policy.FactUsed] = policy.UsedAgain(content, m.Use(uid), files.use(uid))
	runtime.tell(&e)
	return policy.Used(e, policy.Parked{At: since}, policy.Rules{Waive: p.cfg.Waive}, p.cfg.Clock.Now())
}

// againFact says whether pods/UID holds more than a kubelet makes before there is any volume:
// pods/UID, pods/UID/volumes and pods/UID/plugins, all empty (Kubelet.makePodDataDirs).
// Whatever else lies there is somebody's: the directory is younger than the parking, since
// that took the name away, and so is all that is in it.
func (p *Probe) againFact(ctx context.Context, pods *bounded.Handle, uid parsers.PodUID) policy.Fact {
	origin := filepath.Join(p.cfg.RootDir, "pods", string(uid))
	f, err := bounded.On(ctx, p.guard, origin, pods, func(fd int) policy.Fact { return p.holdsMore(fd, string(uid)) })
	if err != nil {
		f = policy.Fact{Detail: err.Error()}
	}
	f.Origin = origin
	return f
}

func (p *Probe) holdsMore(parent int, name string) policy.Fact {
	fd, err := p.open.Dir(parent, name)
	switch {
	case beneath.Gone(err):
		return policy.Fact{Truth: policy.No, Detail: "it is gone again"}
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return policy.Fact{Truth: policy.Yes, Detail: "it is no directory, or a mount point"}
	case err != nil:
		return policy.Fact{Detail: err.Error()}
	}
	defer beneath.Close(fd)
	names, err := firstNames(fd)
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	for _, d := range names {
		if !contents.MadeFirst(d.Name) {
			return policy.Fact{Truth: policy.Yes, Detail: "it holds " + clean.Name(d.Name)}
		}
		below, err := p.open.Dir(fd, d.Name)
		if err != nil {
			if beneath.Gone(err) {
				continue
			}
			return policy.Fact{Truth: policy.Yes, Detail: fmt.Sprintf("%s in it is no directory, or a mount point", clean.Name(d.Name))}
		}
		in, err := firstNames(below)
		beneath.Close(below)
		switch {
		case err != nil:
			return policy.Fact{Detail: err.Error()}
		case len(in) > 0:
			return policy.Fact{Truth: policy.Yes, Detail: "it holds " + clean.Name(d.Name+"/"+in[0].Name)}
		}
	}
	return policy.Fact{Truth: policy.No}
}

// firstNames lists no more of a directory than it takes.
func firstNames(fd int) ([]beneath.Entry, error) {
	var names []beneath.Entry
	err := beneath.EachName(fd, make([]byte, 4096), func(d beneath.Entry) bool {
		names = append(names, d)
		return len(names) < 3
	})
	if errors.Is(err, beneath.ErrTooMany) {
		err = nil // one more than the kubelet makes is enough
	}
	return names, err
}
