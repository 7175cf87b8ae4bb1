package removal

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// liftFrom is the number of levels of a tree to be removed that the walk descends; deeper directories are moved
// to the tree's top first. Landlock checks each level up to the quarantine at each step: without moving, a tree
// of 12,000 levels took 47 s of processor time, and one of 160,000 would take hours. Any pod can create such a
// tree. Programs rarely create one this deep.
const liftFrom = 128

// uniform returns the topmost directory of the walk that is not judged, -1 where there is none.
func (w *walker) uniform() int {
	return slices.IndexFunc(w.stack, func(f frame) bool { return f.mode != judge })
}

// lift moves a directory of f that is too deep to the top of the tree to be removed, where the walk reaches it
// later. The whole tree is of one class, so a kill in between does not change what may be removed. If it cannot
// be moved, it is removed in place.
func (w *walker) lift(ctx context.Context, f, child *frame) (bool, error) {
	top := w.uniform()
	if child.mode != whole || top < 0 || len(w.stack)-top < w.b.r.guards.liftFrom {
		return false, nil
	}
	w.checkAt = 0
	if err := w.check(ctx); err != nil { // a tree that was moved away is not fetched back
		return false, err
	}
	to, as := &w.stack[top], "lifted-"+strconv.FormatUint(rand.Uint64(), 36)
	w.b.before("renameat2", child.name)
	if err := change.Renameat2(f.dir, child.name, to.dir, as, w.b.r.guards.noreplace); err != nil {
		return false, nil //nolint:nilerr // see above
	}
	id, err := to.dir.Identify(as)
	if err == nil && id != child.id {
		err = errChanges
	}
	if err != nil {
		return false, w.stop(policy.ReasonRemoval, "renameat2", f, child.name, err)
	}
	if len(to.pending)-to.next < mostListed {
		to.pending = append(to.pending, as)
	} else {
		to.lifted = true // it is read again, so that no list grows with the tree
	}
	return true, nil
}
