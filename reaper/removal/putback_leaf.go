package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// isLeaf reports whether the entry holds the content of a leaf.
func isLeaf(entry string) bool { return strings.HasSuffix(entry, policy.LeafSuffix) }

var (
	errLeafGone   = errors.New("the directory is no longer there; copy its content to where you want it")
	errNameTaken  = errors.New("something with the same name exists there; move it away first, or copy what you want")
	errNotOneLeaf = errors.New("it holds more than the path of one leaf")
)

// putBackLeaf moves cleared content back into the leaf. The entry's layout shows which leaf that is, so the ledger
// is not needed. If the leaf is missing, is a mount point or has one of the names, the content stays in quarantine,
// and the result is Partly. If the pod directory is missing and an operator restores the entry, the entry, which has
// the same layout, becomes the pod directory.
//
// After a kill, a second run moves the rest.
func (b *batch) putBackLeaf(ctx context.Context, a policy.Action) policy.Outcome {
	if errors.Is(b.h.quarErr, unix.ENOENT) {
		return policy.Outcome{Action: a, Result: policy.Done} // clear was killed before it made the quarantine
	}
	if err := b.h.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	id, err := b.h.quar.Identify(a.Entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		// Nothing was moved, or all of it was moved back.
		b.dropManifest(a.Entry)
		return policy.Outcome{Action: a, Result: policy.Done}
	case err != nil:
		return b.refuseStep(a, b.r.quarPath(a.Entry), err)
	case !sameParked(a.ID, id):
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("statx", b.r.quarPath(a.Entry), errReplaced))
	}
	if a.ByPerson {
		if live, err := b.h.pods.Exists(string(a.UID)); err == nil && !live {
			return b.putBackWhole(a, id)
		}
	}
	rel, from, err := b.openEntry(a)
	if err != nil {
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("openat2", b.r.quarPath(a.Entry), err))
	}
	if from == nil {
		return b.finishPutBack(a) // clear was killed before it had made the entry
	}
	defer from.Close()
	a.Leaf = strings.Join(rel, "/")
	leaf, err := b.openLeaf(a, rel)
	if err != nil {
		return b.keepContent(ctx, a, cannotOpen(b.leafPath(a), err))
	}
	defer leaf.Close()
	if err := b.checkFits(from, leaf, b.leafPath(a)); err != nil {
		return b.keepContent(ctx, a, err)
	}
	if err := b.moveBack(from, leaf); err != nil {
		return b.partlyMoved(ctx, a, err)
	}
	return b.finishPutBack(a)
}

// putBackWhole moves the entry to pods/UID.
func (b *batch) putBackWhole(a policy.Action, id policy.DirID) policy.Outcome {
	err := b.rename(b.h.quar, a.Entry, b.h.pods, string(a.UID))
	if err != nil {
		return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
	}
	b.movedPods, b.movedQuar = true, true
	return b.arrived(a, id)
}

// openEntry opens the nested directories that makeEntry made, down to the content of the leaf, and returns the
// leaf's path. The handle is nil if the path is incomplete.
func (b *batch) openEntry(a policy.Action) (rel []string, dir *beneath.Dir, err error) {
	at, err := b.h.quar.Step(a.Entry)
	if err != nil {
		return nil, nil, err
	}
	for {
		if _, ok := contents.SplitLeaf(strings.Join(rel, "/")); ok {
			return rel, at, nil
		}
		names, err := b.names(at)
		if err == nil && len(names) > 1 {
			err = errNotOneLeaf
		}
		if err != nil || len(names) == 0 {
			at.Close()
			return nil, nil, err
		}
		rel = append(rel, names[0])
		if len(rel) > 4 {
			at.Close()
			return nil, nil, errNotOneLeaf
		}
		if at, err = b.stepDown(at, rel[len(rel)-1:]); err != nil {
			return nil, nil, err
		}
	}
}

func cannotOpen(path string, err error) error {
	switch {
	case change.Is(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP):
		return beneath.PathError("openat2", path, errLeafGone)
	case change.Is(err, unix.EXDEV):
		return fmt.Errorf("something is mounted on it; unmount it, then restore: %w", beneath.PathError("openat2", path, err))
	}
	return beneath.PathError("openat2", path, err)
}

// checkFits returns an error if a name in from exists in leaf.
func (b *batch) checkFits(from, leaf *beneath.Dir, path string) error {
	mine, err := b.names(from)
	if err != nil {
		return err
	}
	theirs, err := b.names(leaf)
	if err != nil {
		return err
	}
	slices.Sort(theirs)
	for _, name := range mine {
		if _, taken := slices.BinarySearch(theirs, name); taken {
			return beneath.PathError("renameat2", path+"/"+name, errNameTaken)
		}
	}
	return nil
}

// keepContent returns the outcome of content that stays in quarantine.
func (b *batch) keepContent(ctx context.Context, a policy.Action, why error) policy.Outcome {
	out := refuse(a, policy.ReasonCannotMove, fmt.Errorf("%w; it is kept in %s", why, b.r.quarPath(a.Entry+"/"+a.Leaf)))
	out.Result = policy.Partly
	return b.withResidue(ctx, out)
}

// partlyMoved returns the outcome if some of the content is in the leaf and the rest in quarantine. It is Partly if a
// second try cannot move the rest, and Failed if it can.
func (b *batch) partlyMoved(ctx context.Context, a policy.Action, cause error) policy.Outcome {
	err := fmt.Errorf("only some of it could be moved back: %w", explain(beneath.PathError("renameat2", b.leafPath(a), cause)))
	if change.Is(cause, unix.EEXIST, unix.ENOENT) {
		return b.keepContent(ctx, a, err)
	}
	return failed(a, policy.ReasonCannotMove, err)
}

// finishPutBack removes the entry, which holds only the directories that makeEntry made.
func (b *batch) finishPutBack(a policy.Action) policy.Outcome {
	if err := b.dropEntry(a); err != nil {
		return failed(a, policy.ReasonCannotMove, err)
	}
	return policy.Outcome{Action: a, Result: policy.Done}
}

// dropEntry removes the empty directories of an entry by rmdir, and then its manifest.
func (b *batch) dropEntry(a policy.Action) error {
	if !b.inQuarantine(a.Entry) {
		b.dropManifest(a.Entry)
		return nil
	}
	dirs, names := []*beneath.Dir{b.h.quar}, []string{a.Entry}
	defer func() {
		for _, dir := range dirs[1:] {
			dir.Close()
		}
	}()
	for rel := []string(nil); ; {
		dir, err := dirs[len(dirs)-1].Step(names[len(names)-1])
		if err != nil {
			return beneath.PathError("openat2", b.r.quarPath(a.Entry), err)
		}
		dirs = append(dirs, dir)
		// This is the leaf, the last directory that makeEntry made. If it has content, rmdir fails.
		if _, ok := contents.SplitLeaf(strings.Join(rel, "/")); ok {
			break
		}
		below, err := b.names(dir)
		if err != nil {
			return beneath.PathError("getdents64", b.r.quarPath(a.Entry), err)
		}
		if len(below) != 1 || len(rel) >= 4 {
			break
		}
		names, rel = append(names, below[0]), append(rel, below[0])
	}
	for i, name := range slices.Backward(names) {
		b.before("rmdir", name)
		if err := change.Unlinkat(dirs[i], name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			return beneath.PathError("unlinkat", b.r.quarPath(a.Entry), err)
		}
	}
	b.movedQuar = true
	b.dropManifest(a.Entry)
	return nil
}
