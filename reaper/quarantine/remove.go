package quarantine

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

type statx = unix.Statx_t

const (
	// maxVolData is the most that a vol_data.json may hold; the kubelet writes some 500 bytes.
	maxVolData = 1 << 20
	// maxRescans limits how often a directory that turns out not to be empty is read again.
	maxRescans = 3
	// checkEvery is the number of removals between two checks that the open directories are still in place. On tmpfs 32
	// costs no more time than 256, and 1 costs a third more.
	checkEvery = 32
	// liftFrom is how many levels the walk goes down in a tree that is removed whole; see lift.
	liftFrom = 48
)

var (
	errNothing   = errors.New("the plan names nothing that may be removed")
	errMovedAway = errors.New("it was moved away while it was being removed")
	errWriter    = errors.New("something still writes here")
)

// mode is how a removal treats what lies in a directory.
type mode uint8

const (
	byName mode = iota // each name by its own class
	whole              // remove everything
	prune              // remove empty directories, keep the rest
)

// frame is what a removal knows of one directory on its way.
type frame struct {
	l       *fdpath.Level
	bytes   int64 // its own allocated bytes
	mode    mode
	class   content.Class
	kept    bool // something in it is kept
	changed bool // something was removed from it
	rescans int
	// ephemeral marks the directory of an ephemeral CSI volume. Only its vol_data.json shows this, so that file is removed
	// last; putOff is set if there is one.
	ephemeral, putOff bool
	lifted            bool // something was moved into it that the walk has not been told of
}

// removal removes one entry of the quarantine, from the leaves up: what is of the classes in set. With an empty set it
// only counts.
type removal struct {
	b      *batch
	set    content.Set
	ended  func() error // of the context
	frames []frame
	out    *judge.Outcome
	first  error // the first error that stopped no more than one name
	// removals counts the removed names, and checkAt is when the open directories are checked next.
	removals, checkAt int
	manifest          bool // the manifest was removed
}

// remove removes from the entry what the move allows. If it is killed after a step, a second run removes the rest.
func (b *batch) remove(ctx context.Context, m judge.Move) judge.Outcome {
	out := judge.Outcome{Move: m}
	switch {
	case b.quarErr != nil:
		// A missing quarantine does not show that the entry is gone: its disk may not be mounted, or --quarantine-dir may
		// have changed.
		return refuse(m, b.quarErr)
	case m.Remove == content.None:
		return refuse(m, errNothing)
	}
	b.q.at(b.quar, m.Entry)
	dir, err := b.quar.Step(m.Entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		b.dropManifest(m.Entry)
		out.Result = judge.Gone
		return out
	case err != nil:
		return refuse(m, fdpath.OpenError(b.q.path(m.Entry), err))
	}
	defer dir.Close()
	id, err := dir.ID()
	if err == nil && !m.ID.Same(id) {
		err = errReplaced
	}
	if err == nil && id.Dev != b.quar.ID.Dev {
		err = fdpath.ErrSubvolume
	}
	if err != nil {
		return refuse(m, fdpath.PathError("statx", b.q.path(m.Entry), err))
	}
	r := &removal{b: b, set: m.Remove, ended: ctx.Err, out: &out}
	err = b.walker.Walk(&fdpath.Level{Dir: dir, Name: m.Entry, Up: b.quar}, r)
	r.finish(err)
	if r.manifest && out.Result != judge.Done {
		b.writeManifest(m, m.Entry, aboutMoved)
	}
	out.ID = id
	out.Stopped = ctx.Err() != nil && out.Result != judge.Done && out.Result != judge.Partly
	return out
}

// finish sets how the removal ended.
func (r *removal) finish(err error) {
	o := r.out
	switch {
	case err != nil && o.Taken == nil:
		o.Result = judge.Refused
	case err != nil || r.first != nil:
		o.Result = judge.Failed
	case len(o.Left) > 0:
		o.Result = judge.Partly
	default:
		o.Result = judge.Done
	}
	if err == nil {
		err = r.first
	}
	if err != nil {
		o.Err = err.Error()
	}
}

// top returns the frame of l, which is the last one.
func (r *removal) top(l *fdpath.Level) *frame {
	for r.frames[len(r.frames)-1].l != l {
		r.frames = r.frames[:len(r.frames)-1]
	}
	return &r.frames[len(r.frames)-1]
}

// Enter decides how a directory is treated.
func (r *removal) Enter(l *fdpath.Level, st *statx) (bool, error) {
	f := frame{l: l, bytes: fdpath.Bytes(st), class: content.Skeleton}
	if l.Depth > 0 {
		up := r.top(l.Up)
		f.mode, f.class, f.ephemeral = up.mode, up.class, up.ephemeral
	}
	if err := r.check(); err != nil {
		return false, err
	}
	r.b.q.at(l, "")
	if f.mode == byName {
		if enter, err := r.classify(&f); err != nil || !enter {
			return false, err
		}
	}
	if lifted, err := r.lift(&f); lifted || err != nil {
		return false, err
	}
	r.frames = append(r.frames, f)
	return true, nil
}

// classify sets the class of a directory, and how it is treated. It returns false for a tree that is kept.
func (r *removal) classify(f *frame) (enter bool, err error) {
	rel := f.l.Rel("")
	class, uniform := content.InCSI(rel, f.ephemeral)
	f.ephemeral = false
	switch {
	case !uniform:
		f.class = content.Skeleton
		if content.IsCSIVolume(rel) {
			text, err := f.l.ReadFile(content.VolData, maxVolData)
			f.ephemeral = err == nil && content.EphemeralCSI(text)
		}
	case r.set.Has(class):
		f.mode, f.class = whole, class
	default:
		s, err := r.survey(f.l)
		if err != nil {
			return false, err
		}
		if !s.empty() || !r.set.Has(content.Skeleton) {
			r.top(f.l.Up).kept = true
			r.row(s.residue(rel, class))
			return false, nil
		}
		// A tree of directories alone is skeleton. A file that comes meanwhile is kept.
		f.mode, f.class = prune, content.Skeleton
	}
	return true, nil
}

// File removes or keeps a name that is no directory.
func (r *removal) File(l *fdpath.Level, name string, st *statx) error {
	f := r.top(l)
	if err := r.check(); err != nil {
		return err
	}
	switch f.mode {
	case whole:
		return r.unlink(f, name, f.class, st)
	case prune:
		r.keep(f, name, content.Data, st)
		return nil
	case byName:
	}
	if f.ephemeral && name == content.VolData {
		f.putOff = true
		return nil
	}
	return r.byClass(f, name, st)
}

// byClass removes a name if its class is in the set. A vol_data.json is removed only when its content is in the outcome.
func (r *removal) byClass(f *frame, name string, st *statx) error {
	rel, size := f.l.Rel(name), fdpath.Size(st)
	class := content.Of(rel, fdpath.Type(st), size)
	if content.ByText(rel, fdpath.Type(st), size) {
		if text, err := f.l.ReadFile(name, content.BiggestText); err == nil {
			class = content.OfText(rel, text)
		}
	}
	if r.set.Has(class) && class == content.Skeleton && name == content.VolData && rel[0] == "volumes" {
		text, err := f.l.ReadFile(name, maxVolData)
		switch {
		case err == nil:
			if r.out.VolData == nil {
				r.out.VolData = map[string]string{}
			}
			r.out.VolData[quoted(rel)] = string(text)
		case !r.set.Has(content.Data):
			class = content.Data
		}
	}
	if !r.set.Has(class) {
		r.keep(f, name, class, st)
		return nil
	}
	return r.unlink(f, name, class, st)
}

func (r *removal) unlink(f *frame, name string, class content.Class, st *statx) error {
	r.b.q.at(f.l, name)
	err := r.b.q.disk.unlink(f.l.Dir, name)
	switch {
	case err == nil:
		bytes := int64(0)
		if st.Nlink <= 1 {
			bytes = fdpath.Bytes(st)
		}
		f.changed = true
		r.removed(class, bytes)
	case fdpath.Is(err, unix.ENOENT, unix.EISDIR): // a directory is found when the parent is read again
	case errors.Is(err, unix.EBUSY):
		return r.stop(f.l, name, "unlinkat", unix.EXDEV)
	case fdpath.Is(err, unix.EPERM, unix.EACCES): // usually it is immutable or append-only: no attribute is ever cleared
		r.keep(f, name, class, st)
		r.note(f.l, name, "unlinkat", err)
	default:
		return r.stop(f.l, name, "unlinkat", err)
	}
	return nil
}

// Failed handles what could not be opened or listed. A mount, another device or a failing disk stops the removal of the
// entry.
func (r *removal) Failed(l *fdpath.Level, name, op string, err error) error {
	switch {
	case errors.Is(err, fdpath.ErrChanges):
		return nil // it is found when the parent is read again
	case fdpath.Is(err, unix.EPERM, unix.EACCES), errors.Is(err, fdpath.ErrTooDeep), r.set == content.None:
		r.keepDir(r.top(l), l.Rel(name), pathOf(l, name), err)
		return nil
	}
	return r.stop(l, name, op, err)
}

// stop returns the error that ends the removal of the entry.
func (r *removal) stop(l *fdpath.Level, name, op string, err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fdpath.OpenError(pathOf(l, name), err)
	}
	return fdpath.PathError(op, pathOf(l, name), err)
}

// removed counts one removed name.
func (r *removal) removed(class content.Class, bytes int64) {
	if r.out.Taken == nil {
		r.out.Taken = map[content.Class]judge.Tally{}
	}
	t := r.out.Taken[class]
	r.out.Taken[class] = judge.Tally{Entries: t.Entries + 1, Bytes: t.Bytes + bytes}
	r.removals++
}
