package quarantine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
)

// Leave removes a directory whose removable content is gone, or syncs what was removed from one that is kept: when that is
// removed, nothing of it can come back.
func (r *removal) Leave(l *fdpath.Level) (again bool, err error) {
	f := r.top(l)
	if f.putOff {
		if err := r.removeVolData(f); err != nil {
			return false, err
		}
	}
	if !f.kept && (f.mode != byName || r.set.Has(content.Skeleton)) {
		if again, err := r.rmdir(f); err != nil || again {
			return again, err
		}
	}
	if f.kept && f.changed {
		r.b.q.at(l, "")
		if err := r.b.q.disk.sync(l.Dir); err != nil {
			return false, r.stop(l, "", "fsync", err)
		}
	}
	kept := f.kept
	if r.frames = r.frames[:len(r.frames)-1]; l.Depth > 0 {
		up := r.top(l.Up)
		up.kept, up.changed = up.kept || kept, up.changed || !kept
	}
	return false, nil
}

// rmdir removes the directory f, or sets f.kept. again reports that f must be read again first.
func (r *removal) rmdir(f *frame) (again bool, _ error) {
	l := f.l
	if l.Depth == 0 {
		r.b.dropManifest(l.Name)
		r.manifest = true
	}
	r.b.q.at(l.Up, l.Name)
	err := r.b.q.disk.rmdir(l.Up.Dir, l.Name)
	switch {
	case err == nil:
		r.removed(f.class, f.bytes)
		if l.Depth == 0 {
			r.b.changed(r.b.quar)
		}
		return false, nil
	case fdpath.Is(err, unix.ENOENT, unix.ENOTDIR):
		// If it was moved instead of removed, the other open directories may have been moved, too.
		if st, err := l.Stat(); err == nil && st.Nlink == 0 {
			return false, nil
		}
		return false, r.stop(l, "", "unlinkat", errMovedAway)
	case fdpath.Is(err, unix.ENOTEMPTY, unix.EEXIST):
		if f.lifted {
			f.lifted = false
			return true, nil
		}
		if f.rescans++; f.rescans <= maxRescans && f.mode != prune { // in prune, what came is a file
			return true, nil
		}
		err = errWriter
	case errors.Is(err, unix.EBUSY):
		return false, r.stop(l, "", "unlinkat", unix.EXDEV)
	case !fdpath.Is(err, unix.EPERM, unix.EACCES):
		return false, r.stop(l, "", "unlinkat", err)
	}
	r.keepDir(f, l.Rel(""), pathOf(l, ""), err)
	return false, nil
}

// removeVolData removes the vol_data.json that was put off, after the rest of its volume. If something is kept, the file
// that identifies it is kept, too, until it has aged; then an operator decides.
func (r *removal) removeVolData(f *frame) error {
	f.putOff, f.ephemeral = false, false
	st, err := f.l.StatName(content.VolData)
	if err != nil {
		return nil //nolint:nilerr // removed meanwhile
	}
	if !f.kept {
		return r.byClass(f, content.VolData, &st)
	}
	class := content.Ephemeral
	if r.set.Has(class) {
		class = content.Data
	}
	r.keep(f, content.VolData, class, &st)
	return nil
}

// check returns an error if the context has ended. Every checkEvery removals it also checks that each open directory is
// still in its parent: one that a process of the host moved out of quarantine is no longer ours.
func (r *removal) check() error {
	if err := r.ended(); err != nil {
		return err
	}
	if r.removals < r.checkAt || !r.b.q.guards.moved {
		return nil
	}
	r.checkAt = r.removals + checkEvery
	for _, f := range r.frames {
		st, err := f.l.StatName("..")
		if err == nil && fdpath.IDOf(&st) != f.l.Up.ID {
			err = errMovedAway
		}
		if err != nil {
			return r.stop(f.l, "", "statx", err)
		}
	}
	return nil
}

// lift moves a directory that is too deep to the top of its tree, where the walk reaches it later. So a walk of any tree
// holds few directories open, and is not quadratic: Landlock checks each level up to the quarantine at each step, and a tree
// of 12,000 levels took 47 s of processor time. Any pod can make such a tree. The tree is of one class, so a kill in
// between does not change what may be removed.
func (r *removal) lift(f *frame) (bool, error) {
	if f.mode != whole {
		return false, nil
	}
	top := 0
	for r.frames[top].mode != whole {
		if top++; top == len(r.frames) {
			return false, nil
		}
	}
	if f.l.Depth-r.frames[top].l.Depth < r.b.q.guards.liftFrom {
		return false, nil
	}
	r.checkAt = 0
	if err := r.check(); err != nil { // it must not bring back a tree that was moved out of quarantine
		return false, err
	}
	to, as := &r.frames[top], "lifted-"+strconv.FormatUint(rand.Uint64(), 36)
	r.b.q.at(f.l, "")
	if err := r.b.q.disk.rename(f.l.Up.Dir, f.l.Name, to.l.Dir, as, r.b.q.guards.noreplace); err != nil {
		r.keepDir(r.top(f.l.Up), f.l.Rel(""), pathOf(f.l, ""), fmt.Errorf("it is too deep, and cannot be moved up: %w", err))
		return true, nil
	}
	id, err := to.l.Identify(as)
	if err == nil && id != f.l.ID {
		err = errReplaced
	}
	if err != nil {
		return false, r.stop(f.l, "", "renameat2", err)
	}
	to.lifted = to.lifted || !to.l.Also(as) // if there is no room in the walk's list, the directory is read again
	return true, nil
}
