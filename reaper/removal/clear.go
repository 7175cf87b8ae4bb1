package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

var (
	errLeaf    = errors.New("it is no directory of a volume")
	errNotThis = errors.New("this entry's name is not that of a leaf's content")
	errFilled  = errors.New("something new appears in it as fast as it is moved")
)

// clear moves the content of one leaf of pods/UID into the same path below quarantine/Entry. The leaf and its
// siblings remain. The steps, and what a second run finds after a kill:
//
//  1. manifest written: nothing was moved, the manifest is written again;
//  2. the entry or some of the directories in it made: those that are there are used;
//  3. some of the content moved: the rest is moved as well.
//
// The way back, from any of these, is putBackLeaf.
func (b *batch) clear(ctx context.Context, a policy.Action) policy.Outcome {
	out := b.clearLeaf(ctx, a)
	if (out.Result == policy.Refused || out.Result == policy.Gone) && b.h.quarErr == nil && b.there(a.Entry) {
		// A run that was killed may have moved something, so the intent remains open.
		out.Result = policy.Failed
	}
	return out
}

func (b *batch) clearLeaf(ctx context.Context, a policy.Action) policy.Outcome {
	if err := b.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	rel, ok := contents.SplitLeaf(a.Leaf)
	switch {
	case !ok:
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("openat2", b.leafPath(a), errLeaf))
	case !isLeaf(a.Entry):
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("mkdirat", b.r.quarPath(a.Entry), errNotThis))
	case a.ID == (policy.DirID{}):
		return refuse(a, policy.ReasonCannotMove, errNoID)
	}
	leaf, err := b.openLeaf(a, rel)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return b.refuseStep(a, b.leafPath(a), err)
	}
	var names []string
	if err == nil {
		defer leaf.Close()
		if names, err = b.names(leaf); err != nil {
			return refuse(a, policy.ReasonCannotMove, beneath.PathError("getdents64", b.leafPath(a), err))
		}
	}
	if len(names) == 0 {
		return b.wasEmpty(ctx, a)
	}
	if err := b.manifestOf(a); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	dest, err := b.makeEntry(a, rel)
	if err == nil {
		defer dest.Close()
		err = ctx.Err()
	}
	if err == nil {
		err = b.empty(ctx, leaf, dest, a)
	}
	if err == nil {
		err = b.stillThere(a, rel, leaf)
	}
	if err == nil {
		err = errors.Join(change.Fsync(dest.FD()), change.Fsync(leaf.FD()))
	}
	if err != nil {
		return b.unclear(a, leaf, dest, err)
	}
	return b.cleared(ctx, policy.Outcome{Action: a, Result: policy.Done})
}

// wasEmpty is for a leaf that holds nothing, or is no longer there: the kubelet was faster,
// or a run that was killed has moved all of it.
func (b *batch) wasEmpty(ctx context.Context, a policy.Action) policy.Outcome {
	if b.there(a.Entry) {
		return b.cleared(ctx, policy.Outcome{Action: a, Result: policy.Done})
	}
	b.dropManifest(a.Entry)
	return policy.Outcome{Action: a, Result: policy.Gone}
}

func (b *batch) leafPath(a policy.Action) string {
	return b.r.podsPath(string(a.UID) + "/" + a.Leaf)
}

// openLeaf opens the path to the leaf one name at a time. The pod directory must be the one that was judged, if
// the action has its identity.
func (b *batch) openLeaf(a policy.Action, rel []string) (*beneath.Dir, error) {
	pod, err := b.h.pods.Step(string(a.UID))
	if err != nil {
		return nil, err
	}
	if a.Kind == policy.Clear {
		id, err := b.h.pods.Identify(string(a.UID))
		podID, podErr := pod.ID()
		if err == nil {
			err = podErr
		}
		if err == nil && (!b.r.guards.same(a.ID, id) || podID != id) {
			err = errOther
		}
		if err != nil {
			pod.Close()
			return nil, err
		}
	}
	return b.down(pod, rel)
}

// down opens rel below the directory at, which it closes.
func (b *batch) down(at *beneath.Dir, rel []string) (*beneath.Dir, error) {
	for _, name := range rel {
		dir, err := at.Step(name)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = dir
	}
	return at, nil
}

// manifestOf writes the manifest unless a run that was killed has come further.
func (b *batch) manifestOf(a policy.Action) error {
	if b.there(a.Entry) && b.there(a.Entry+manifestSuffix) {
		return nil
	}
	return b.writeManifest(a)
}

// entryMode is that of the directories that a kubelet makes below pods/UID: should the entry
// become pods/UID again, it looks as it did.
const entryMode = 0o750

// makeEntry makes the entry and the leaf's path in it, each on disk before anything is
// moved there, and opens the last of them.
func (b *batch) makeEntry(a policy.Action, rel []string) (*beneath.Dir, error) {
	var at *beneath.Dir
	for i, name := range append([]string{a.Entry}, rel...) {
		parent := cmp.Or(at, b.h.quar)
		dir, err := b.make(parent, name)
		if i > 0 {
			parent.Close()
		}
		if err != nil {
			return nil, beneath.PathError("mkdirat", b.r.quarPath(a.Entry), err)
		}
		at = dir
	}
	b.movedQuar = true
	return at, nil
}

func (b *batch) make(parent *beneath.Dir, name string) (*beneath.Dir, error) {
	b.before("mkdirat", name)
	if err := beneath.Uninterrupted(func() error { return unix.Mkdirat(parent.FD(), name, entryMode) }); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	dir, err := parent.Step(name)
	if err == nil {
		err = change.Fsync(parent.FD())
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// empty moves the content of the leaf. Files that appear meanwhile are moved, too; a writer who
// does not stop is in use, and wins.
func (b *batch) empty(ctx context.Context, leaf, dest *beneath.Dir, a policy.Action) error {
	for range maxRescans + 1 {
		names, err := b.names(leaf)
		if err != nil {
			return beneath.PathError("getdents64", b.leafPath(a), err)
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := b.rename(leaf, name, dest, name)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return beneath.PathError("renameat2", b.leafPath(a)+"/"+name, err)
			}
		}
	}
	return beneath.PathError("renameat2", b.leafPath(a), errFilled)
}

// names lists a directory from its beginning. One that was removed meanwhile has none.
func (b *batch) names(dir *beneath.Dir) ([]string, error) {
	names, err := namesOf(dir)
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return names, err
}

// stillThere checks that the emptied directory is still the leaf: another process may have moved it away while
// it was open, and files that are not ours with it. A leaf that no longer exists was empty when the kubelet
// removed it.
func (b *batch) stillThere(a policy.Action, rel []string, leaf *beneath.Dir) error {
	now, err := b.openLeaf(a, rel)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if change.Is(err, unix.EXDEV) {
		return fmt.Errorf("something was mounted on it meanwhile: %w", beneath.PathError("openat2", b.leafPath(a), unix.EBUSY))
	}
	if err != nil {
		return beneath.PathError("openat2", b.leafPath(a), err)
	}
	defer now.Close()
	was, errWas := leaf.ID()
	is, errIs := now.ID()
	if err := errors.Join(errWas, errIs); err != nil {
		return err
	}
	if was != is {
		return beneath.PathError("openat2", b.leafPath(a), errOther)
	}
	return nil
}

// unclear moves everything back into the leaf by its handle, and returns the outcome with the cause.
func (b *batch) unclear(a policy.Action, leaf, dest *beneath.Dir, cause error) policy.Outcome {
	reason := policy.ReasonCannotMove
	if errors.Is(cause, unix.EBUSY) {
		reason = policy.ReasonMounted
	}
	out := refuse(a, reason, cause)
	if dest != nil {
		if err := b.fill(dest, leaf); err != nil {
			out = refuse(a, reason, fmt.Errorf("%w, and not all of it can be moved back: %w", cause, err))
			out.Result = policy.Failed
			return out
		}
	}
	if err := b.dropEntry(a); err != nil {
		out = refuse(a, reason, fmt.Errorf("%w, and %w", cause, err))
		out.Result = policy.Failed
	}
	return out
}

// fill moves the content of from into leaf, and replaces nothing.
func (b *batch) fill(from, leaf *beneath.Dir) error {
	names, err := b.names(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := b.rename(from, name, leaf, name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return errors.Join(change.Fsync(leaf.FD()), change.Fsync(from.FD()))
}

// cleared returns the content of the entry now.
func (b *batch) cleared(ctx context.Context, out policy.Outcome) policy.Outcome {
	a := out.Action
	entry := a.Entry
	id, err := b.h.quar.Identify(entry)
	if err != nil {
		failed := b.refuseStep(a, b.r.quarPath(a.Entry), err)
		failed.Result = policy.Failed
		return failed
	}
	out.ID = id
	b.buffer()
	var rows policy.Outcome
	w := &walker{b: b, entry: a.Entry, out: &rows} // which may remove nothing, so it only reads
	if err := w.start(ctx, entry, id); err != nil || len(rows.Left) == 0 {
		rows.Left = []policy.Residue{{Path: quoted([]string{a.Leaf}), Class: contents.ClassData, Entries: 1, Partial: true}}
	}
	out.Left = rows.Left
	return out
}
