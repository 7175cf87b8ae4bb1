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
	errLeafGone = errors.New("the directory is no longer there, so what lay in it can only be copied to where it is wanted")
	errNameLies = errors.New("something of the same name lies there again; move that away first, or copy what is wanted")
	errNotMade  = errors.New("it holds more than the path of one leaf")
)

// putBackLeaf moves cleared content back into the leaf, after checking that all of it fits. The entry itself
// shows which leaf it was, so that it can be put back without the ledger. Names that cannot be put back (the
// leaf is gone, or mounted on, or has one of the names) remain in quarantine, and the result is Partly. If the
// whole pod directory is gone and an operator restores it, the entry, which has the same layout, becomes the
// pod directory.
//
// A second run after a kill finds the rest in quarantine and moves it, too.
func (b *batch) putBackLeaf(ctx context.Context, a policy.Action) policy.Outcome {
	if errors.Is(b.h.quarErr, unix.ENOENT) {
		return policy.Outcome{Action: a, Result: policy.Done} // killed before it made the quarantine
	}
	if err := b.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	id, err := b.h.quar.Identify(a.Entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		// Nothing was moved, or all of it has gone back.
		b.dropManifest(a.Entry)
		return policy.Outcome{Action: a, Result: policy.Done}
	case err != nil:
		return b.refuseStep(a, b.r.quarPath(a.Entry), err)
	case !sameParked(a.ID, id):
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("statx", b.r.quarPath(a.Entry), errOther))
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
		return b.undone(a) // killed before it had made all of it
	}
	defer from.Close()
	a.Leaf = strings.Join(rel, "/")
	leaf, err := b.openLeaf(a, rel)
	if err != nil {
		return b.stays(ctx, a, cannotOpen(b.leafPath(a), err))
	}
	defer leaf.Close()
	if err := b.fits(from, leaf, b.leafPath(a)); err != nil {
		return b.stays(ctx, a, err)
	}
	if err := b.fill(from, leaf); err != nil {
		return b.half(ctx, a, err)
	}
	return b.undone(a)
}

// putBackWhole makes the entry the pod directory.
func (b *batch) putBackWhole(a policy.Action, id policy.DirID) policy.Outcome {
	err := b.rename(b.h.quar, a.Entry, b.h.pods, string(a.UID))
	if err != nil {
		return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
	}
	b.movedPods, b.movedQuar = true, true
	return b.arrived(a, id)
}

// openEntry opens the nested directories of the entry, as makeEntry made them, down to the content of the leaf,
// and returns the leaf's path. The handle is nil if the path ends before.
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
			err = errNotMade
		}
		if err != nil || len(names) == 0 {
			at.Close()
			return nil, nil, err
		}
		rel = append(rel, names[0])
		if len(rel) > 4 {
			at.Close()
			return nil, nil, errNotMade
		}
		if at, err = b.down(at, rel[len(rel)-1:]); err != nil {
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

// fits returns why the content of from cannot be moved into leaf.
func (b *batch) fits(from, leaf *beneath.Dir, path string) error {
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
			return beneath.PathError("renameat2", path+"/"+name, errNameLies)
		}
	}
	return nil
}

// stays keeps the content in quarantine, unchanged.
func (b *batch) stays(ctx context.Context, a policy.Action, why error) policy.Outcome {
	out := refuse(a, policy.ReasonCannotMove, fmt.Errorf("%w; it lies in %s", why, b.r.quarPath(a.Entry+"/"+a.Leaf)))
	out.Result = policy.Partly
	return b.cleared(ctx, out)
}

// half is the outcome of a way back that ended in the middle. Nothing is lost: some is in the leaf and the rest
// in quarantine. Content that a second try cannot move remains so.
func (b *batch) half(ctx context.Context, a policy.Action, cause error) policy.Outcome {
	err := fmt.Errorf("only some of it could be moved back: %w", explain(beneath.PathError("renameat2", b.leafPath(a), cause)))
	if change.Is(cause, unix.EEXIST, unix.ENOENT) {
		return b.stays(ctx, a, err)
	}
	out := refuse(a, policy.ReasonCannotMove, err)
	out.Result = policy.Failed
	return out
}

// undone ends the way back: the entry holds nothing but the directories that we made.
func (b *batch) undone(a policy.Action) policy.Outcome {
	if err := b.dropEntry(a); err != nil {
		out := refuse(a, policy.ReasonCannotMove, err)
		out.Result = policy.Failed
		return out
	}
	return policy.Outcome{Action: a, Result: policy.Done}
}

// dropEntry removes the directories of an entry whose content has been put back, by rmdir, which removes only
// empty ones, and then the manifest.
func (b *batch) dropEntry(a policy.Action) error {
	if !b.there(a.Entry) {
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
		// The leaf's own directory is the last of ours; if it has content, rmdir fails.
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
