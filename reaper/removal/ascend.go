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

// leave is called when all that may go has gone from f. It removes f itself.
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
		if err := w.last(f); err != nil {
			return err
		}
	}
	switch {
	case f.mode == judge && !w.take.Has(contents.ClassSkeleton):
		f.kept = true
	case f.mode == count && top == w.survey.root:
		if again, err := w.surveyed(f); err != nil || again {
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
		w.left = true
		if parent != nil {
			parent.kept = true
		}
	}
	w.close(f)
	w.stack[top] = frame{} // its names are not needed any more
	w.stack = w.stack[:top]
	return nil
}

// rmdir removes the empty directory f. It is true when f must be read again first.
func (w *walker) rmdir(f *frame, up *beneath.Dir) (again bool, err error) {
	w.b.before("rmdir", f.name)
	err = change.Unlinkat(up, f.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil:
		w.count(f.class, f.bytes)
		return false, nil
	case change.Is(err, unix.ENOENT, unix.ENOTDIR):
		// A removed directory is done. A moved one is not: the other open directories may be elsewhere, too.
		if st, err := f.dir.Stat(); err == nil && st.Nlink == 0 {
			return false, nil
		}
		return false, w.stop(policy.ReasonRemoval, "unlinkat", f, "", errMoved)
	case change.Is(err, unix.ENOTEMPTY, unix.EEXIST):
		if f.mode == prune {
			// A moment ago it held only directories. A file that is new is not removed.
			w.leaveOne(f, "", beneath.PathError("unlinkat", w.path(f, ""), errWriter))
			return false, nil
		}
		if f.lifted {
			f.lifted = false
		} else if f.rescans++; f.rescans > maxRescans {
			w.leaveOne(f, "", beneath.PathError("unlinkat", w.path(f, ""), errWriter))
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
		w.leaveOne(f, "", beneath.PathError("unlinkat", w.path(f, ""), err))
		return false, nil
	default:
		return false, w.stop(policy.ReasonRemoval, "unlinkat", f, "", err)
	}
}

// reopen opens the parent of the top frame again if it had been closed, and only if it is still the directory that it was.
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
		err = errMoved
	}
	if err != nil {
		dir.Close()
		return w.stop(policy.ReasonRemoval, "openat2", f, "..", err)
	}
	parent.dir = dir
	w.closed--
	// Its place in the listing is lost, so the rest is read again from the start, unless something is kept: the
	// walk would descend into that forever.
	parent.read = parent.read || parent.kept || f.kept
	return nil
}

// check reports whether the walk may continue: the context has not ended and, every checkEvery removals, each
// open directory is still in its parent. A directory that a process of the host moves out of quarantine is no
// longer ours.
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
			return w.stop(policy.ReasonRemoval, "statx", f, "..", errMoved)
		}
	}
	return nil
}
