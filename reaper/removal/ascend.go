package removal

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// leave finishes the top frame f, whose removable content is gone: it removes f, or marks its parent as kept.
func (w *walker) leave(f *frame) error {
	top := len(w.stack) - 1
	up := w.b.h.quar
	var parent *frame
	if top > 0 {
		parent = &w.stack[top-1]
		if err := w.reopen(f, parent); err != nil {
			return err
		}
		up = parent.dir
	}
	if f.putOff {
		if err := w.removeVolData(f); err != nil {
			return err
		}
	}
	switch {
	case f.mode == judge && !w.take.Has(contents.ClassSkeleton):
		f.kept = true
	case f.mode == count && top == w.survey.root:
		if again, err := w.endSurvey(f); err != nil || again {
			return err
		}
	}
	if !f.kept && f.mode != count {
		again, err := w.rmdir(f, up)
		if err != nil || again {
			return err
		}
	}
	if f.kept {
		w.kept = true
		if parent != nil {
			parent.kept = true
		}
	}
	w.close(f)
	w.stack[top] = frame{} // releases its names
	w.stack = w.stack[:top]
	return nil
}

// rmdir removes the empty directory f. again reports that f must be read again first.
func (w *walker) rmdir(f *frame, up *beneath.Dir) (again bool, err error) {
	w.b.before("rmdir", f.name)
	err = change.Unlinkat(up, f.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil:
		w.removed(f.class, f.bytes)
		return false, nil
	case change.Is(err, unix.ENOENT, unix.ENOTDIR):
		// If f was moved instead of removed, the other open directories may have been moved too.
		if st, err := f.dir.Stat(); err == nil && st.Nlink == 0 {
			return false, nil
		}
		return false, w.stop(policy.ReasonRemoval, "unlinkat", f, "", errMovedAway)
	case change.Is(err, unix.ENOTEMPTY, unix.EEXIST):
		if f.mode == prune {
			// The survey found only directories. A new file is not removed.
			w.keepDir(f, "", beneath.PathError("unlinkat", w.path(f, ""), errWriter))
			return false, nil
		}
		if f.lifted {
			f.lifted = false
		} else if f.rescans++; f.rescans > maxRescans {
			w.keepDir(f, "", beneath.PathError("unlinkat", w.path(f, ""), errWriter))
			return false, nil
		}
		if err := f.dir.Rewind(); err != nil {
			return false, w.stop(policy.ReasonRemoval, "lseek", f, "", err)
		}
		f.read = false
		return true, nil
	case change.Is(err, unix.EBUSY):
		return false, w.stop(policy.ReasonMounted, "unlinkat", f, "", err)
	case change.Is(err, unix.EPERM, unix.EACCES):
		w.keepDir(f, "", beneath.PathError("unlinkat", w.path(f, ""), err))
		return false, nil
	default:
		return false, w.stop(policy.ReasonRemoval, "unlinkat", f, "", err)
	}
}

// reopen opens the parent of the top frame again if it was closed, and checks its identity.
func (w *walker) reopen(f, parent *frame) error {
	if parent.dir != nil {
		return nil
	}
	dir, err := f.dir.Parent()
	if err != nil {
		reason := policy.ReasonRemoval
		if errors.Is(err, unix.EXDEV) {
			reason = policy.ReasonMounted
		}
		return w.stop(reason, "openat2", f, "..", err)
	}
	id, err := dir.ID()
	if err == nil && id != parent.id {
		err = errMovedAway
	}
	if err != nil {
		dir.Close()
		return w.stop(policy.ReasonRemoval, "openat2", f, "..", err)
	}
	parent.dir = dir
	w.closed--
	// The new handle lists from the start. If something is kept, the listing ends here: the walk would enter the
	// kept directories again and again.
	parent.read = parent.read || parent.kept || f.kept
	return nil
}

// check returns an error if the context has ended. Every checkEvery removals it also checks that each open
// directory is still in its parent: one that a process of the host moved out of quarantine is no longer ours.
func (w *walker) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return w.stop(policy.ReasonRemoval, "unlinkat", &w.stack[len(w.stack)-1], "", err)
	}
	if w.removals < w.checkAt || !w.b.r.guards.hangs {
		return nil
	}
	w.checkAt = w.removals + checkEvery
	for i := range w.stack {
		f := &w.stack[i]
		if f.dir == nil {
			continue
		}
		want := w.b.h.quarID
		if i > 0 {
			want = w.stack[i-1].id
		}
		st, err := f.dir.StatName("..")
		if err != nil {
			return w.stop(policy.ReasonRemoval, "statx", f, "..", err)
		}
		if beneath.DirID(&st) != want {
			return w.stop(policy.ReasonRemoval, "statx", f, "..", errMovedAway)
		}
	}
	return nil
}
