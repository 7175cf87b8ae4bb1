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
	errNotLeaf      = errors.New("it is no directory of a volume")
	errNotLeafEntry = errors.New("this entry's name is not that of a leaf's content")
	errFilled       = errors.New("something new appears in it as fast as it is moved")
)

// clear moves the content of one leaf of pods/UID into the same path below quarantine/Entry. The leaf and its
// siblings remain. If it is killed after a step, a second run does this:
//
//  1. manifest written: writes it again;
//  2. some directories of the entry made: uses them and makes the rest;
//  3. some of the content moved: moves the rest.
//
// putBackLeaf undoes any of these.
func (b *batch) clear(ctx context.Context, a policy.Action) policy.Outcome {
	out := b.clearLeaf(ctx, a)
	if (out.Result == policy.Refused || out.Result == policy.Gone) && b.h.quarErr == nil && b.inQuarantine(a.Entry) {
		// A killed run may have moved something, so the intent remains open.
		out.Result = policy.Failed
	}
	return out
}

func (b *batch) clearLeaf(ctx context.Context, a policy.Action) policy.Outcome {
	if err := b.h.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	rel, ok := contents.SplitLeaf(a.Leaf)
	switch {
	case !ok:
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("openat2", b.leafPath(a), errNotLeaf))
	case !isLeaf(a.Entry):
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("mkdirat", b.r.quarPath(a.Entry), errNotLeafEntry))
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
		return b.clearEmpty(ctx, a)
	}
	if err := b.ensureManifest(a); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	dest, err := b.makeEntry(a, rel)
	if err == nil {
		defer dest.Close()
		err = ctx.Err()
	}
	if err == nil {
		err = b.moveContent(ctx, leaf, dest, a)
	}
	if err == nil {
		err = b.stillThere(a, rel, leaf)
	}
	if err == nil {
		err = errors.Join(change.Fsync(dest.FD()), change.Fsync(leaf.FD()))
	}
	if err != nil {
		return b.undoClear(a, leaf, dest, err)
	}
	return b.withResidue(ctx, policy.Outcome{Action: a, Result: policy.Done})
}

// clearEmpty returns the outcome for a leaf that is empty or missing: the kubelet was faster, or a killed run has
// moved all of it.
func (b *batch) clearEmpty(ctx context.Context, a policy.Action) policy.Outcome {
	if b.inQuarantine(a.Entry) {
		return b.withResidue(ctx, policy.Outcome{Action: a, Result: policy.Done})
	}
	b.dropManifest(a.Entry)
	return policy.Outcome{Action: a, Result: policy.Gone}
}

func (b *batch) leafPath(a policy.Action) string {
	return b.r.podsPath(string(a.UID) + "/" + a.Leaf)
}

// openLeaf opens the path to the leaf one name at a time. For a Clear, the pod directory must be the judged one.
func (b *batch) openLeaf(a policy.Action, rel []string) (*beneath.Dir, error) {
	pod, err := b.h.pods.Step(string(a.UID))
	if err != nil {
		return nil, err
	}
	if a.Kind == policy.Clear {
		id, err := pod.ID()
		if err == nil && !b.r.guards.same(a.ID, id) {
			err = errReplaced
		}
		if err != nil {
			pod.Close()
			return nil, err
		}
	}
	return b.stepDown(pod, rel)
}

// stepDown opens rel below the directory at, which it closes.
func (b *batch) stepDown(at *beneath.Dir, rel []string) (*beneath.Dir, error) {
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

// ensureManifest writes the manifest, unless a killed run has already made the entry.
func (b *batch) ensureManifest(a policy.Action) error {
	if b.inQuarantine(a.Entry) && b.inQuarantine(a.Entry+manifestSuffix) {
		return nil
	}
	return b.writeManifest(a)
}

// entryMode is the mode of the directories that a kubelet makes below pods/UID: the entry may become pods/UID.
const entryMode = 0o750

// makeEntry makes and syncs the entry and the leaf's path in it, and opens the last directory of the path.
func (b *batch) makeEntry(a policy.Action, rel []string) (*beneath.Dir, error) {
	var at *beneath.Dir
	for i, name := range append([]string{a.Entry}, rel...) {
		parent := cmp.Or(at, b.h.quar)
		dir, err := b.makeDir(parent, name)
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

func (b *batch) makeDir(parent *beneath.Dir, name string) (*beneath.Dir, error) {
	b.before("mkdirat", name)
	err := beneath.Uninterrupted(func() error { return unix.Mkdirat(parent.FD(), name, entryMode) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
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

// moveContent moves the content of the leaf. Files that appear meanwhile are moved too. It fails if a writer does
// not stop, since the leaf is then in use.
func (b *batch) moveContent(ctx context.Context, leaf, dest *beneath.Dir, a policy.Action) error {
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

// names lists a directory from its beginning. A removed directory has no names.
func (b *batch) names(dir *beneath.Dir) ([]string, error) {
	names, err := namesOf(dir)
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return names, err
}

// stillThere checks that the emptied directory is still the leaf: another process may have moved the open directory
// elsewhere and added files that must not be moved. A missing leaf is not an error: the kubelet removed it empty.
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
		return beneath.PathError("openat2", b.leafPath(a), errReplaced)
	}
	return nil
}

// undoClear moves everything back into the leaf by its handle, and returns the outcome with the cause.
func (b *batch) undoClear(a policy.Action, leaf, dest *beneath.Dir, cause error) policy.Outcome {
	reason := policy.ReasonCannotMove
	if errors.Is(cause, unix.EBUSY) {
		reason = policy.ReasonMounted
	}
	if dest != nil {
		if err := b.moveBack(dest, leaf); err != nil {
			return failed(a, reason, fmt.Errorf("%w, and not all of it can be moved back: %w", cause, err))
		}
	}
	if err := b.dropEntry(a); err != nil {
		return failed(a, reason, fmt.Errorf("%w, and %w", cause, err))
	}
	return refuse(a, reason, cause)
}

// moveBack moves the content of from into leaf, and replaces nothing.
func (b *batch) moveBack(from, leaf *beneath.Dir) error {
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

// withResidue returns out with the identity and the content of the entry.
func (b *batch) withResidue(ctx context.Context, out policy.Outcome) policy.Outcome {
	a := out.Action
	id, err := b.h.quar.Identify(a.Entry)
	if err != nil {
		failed := b.refuseStep(a, b.r.quarPath(a.Entry), err)
		failed.Result = policy.Failed
		return failed
	}
	out.ID = id
	var rows policy.Outcome
	w := &walker{b: b, entry: a.Entry, out: &rows} // without classes to take, it only reads
	if err := w.start(ctx, a.Entry, id); err != nil || len(rows.Left) == 0 {
		rows.Left = []policy.Residue{{Path: quoted([]string{a.Leaf}), Class: contents.ClassData, Entries: 1, Partial: true}}
	}
	out.Left = rows.Left
	return out
}
