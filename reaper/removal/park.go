package removal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

var (
	errReplaced   = errors.New("another directory has its name now")
	errNoID       = errors.New("the plan does not name the directory that was judged")
	errEntryTaken = errors.New("another directory in quarantine has this entry's name")
	errTwoMounts  = errors.New("quarantine and pods directory are on two mounts; set --quarantine-dir to a directory on the mount of the pods directory")
)

// park moves pods/UID to quarantine/Entry. If it is killed after a step, a second run does this:
//
//  1. manifest written: there is no entry, so it writes the manifest again;
//  2. renamed: the entry is the judged directory: done;
//  3. identified, and not the judged directory: see unpark.
func (b *batch) park(ctx context.Context, a policy.Action) policy.Outcome {
	if err := b.h.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	if a.ID == (policy.DirID{}) {
		return refuse(a, policy.ReasonCannotMove, errNoID)
	}
	pod, entry := string(a.UID), a.Entry
	id, err := b.h.pods.Identify(pod)
	switch {
	case errors.Is(err, unix.ENOENT):
		return b.alreadyParked(a, policy.Outcome{Action: a, Result: policy.Gone})
	case err != nil:
		return b.refuseStep(a, b.r.podsPath(string(a.UID)), err)
	case !b.r.guards.same(a.ID, id):
		other := refuse(a, policy.ReasonCannotMove, beneath.PathError("statx", b.r.podsPath(string(a.UID)), errReplaced))
		return b.alreadyParked(a, other)
	}
	if err := b.writeManifest(a); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	if err := ctx.Err(); err != nil {
		// A call above may have blocked for long, and the batch may have been abandoned.
		b.dropManifest(a.Entry)
		return refuse(a, policy.ReasonRemoval, err)
	}
	if err := b.rename(b.h.pods, pod, b.h.quar, entry); err != nil {
		b.dropManifest(a.Entry)
		if errors.Is(err, unix.ENOENT) {
			return policy.Outcome{Action: a, Result: policy.Gone}
		}
		return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.podsPath(string(a.UID)), err)))
	}
	b.movedPods, b.movedQuar = true, true
	if id, err := b.h.quar.Identify(entry); err != nil || !b.r.guards.same(a.ID, id) {
		return b.unpark(a)
	}
	return policy.Outcome{Action: a, Result: policy.Done}
}

// alreadyParked returns Done if a killed run has already moved the judged directory to quarantine; the next look
// judges a directory that now has its name in pods/. If not, it returns otherwise.
func (b *batch) alreadyParked(a policy.Action, otherwise policy.Outcome) policy.Outcome {
	id, err := b.h.quar.Identify(a.Entry)
	switch {
	case err == nil && same(a.ID, id):
		b.movedPods, b.movedQuar = true, true // the killed run may not have synced
		return policy.Outcome{Action: a, Result: policy.Done}
	case errors.Is(err, unix.ENOENT):
		b.dropManifest(a.Entry)
	}
	return otherwise
}

// unpark moves back a directory that replaced the judged one between the check and the rename.
func (b *batch) unpark(a policy.Action) policy.Outcome {
	wrong := beneath.PathError("renameat2", b.r.podsPath(string(a.UID)), errReplaced)
	err := b.rename(b.h.quar, a.Entry, b.h.pods, string(a.UID))
	if err == nil || errors.Is(err, unix.ENOENT) {
		b.dropManifest(a.Entry)
		return refuse(a, policy.ReasonCannotMove, wrong)
	}
	// A third directory has the name in pods/ now. The second stays in quarantine as a conflict, which is never
	// purged without an operator.
	out := failed(a, policy.ReasonCannotMove, fmt.Errorf("%w, and cannot be moved back: %w", wrong, err))
	out.Remade = true
	if name, err := b.asConflict(a.Entry); err == nil {
		out.Conflict = name
	}
	return out
}

// rename moves a name and never replaces one.
func (b *batch) rename(from *beneath.Dir, name string, to *beneath.Dir, as string) error {
	b.before("renameat2", as)
	return change.Renameat2(from, name, to, as, b.r.guards.noreplace)
}

// refuseStep returns the outcome for a directory that could not be opened.
func (b *batch) refuseStep(a policy.Action, path string, err error) policy.Outcome {
	wrapped := beneath.PathError("openat2", path, err)
	switch {
	case change.Is(err, unix.EXDEV):
		return refuse(a, policy.ReasonMounted, fmt.Errorf("it is a mount point: %w", wrapped))
	case change.Is(err, unix.ENOTDIR, unix.ELOOP):
		return refuse(a, policy.ReasonNotADirectory, wrapped)
	}
	return refuse(a, policy.ReasonCannotMove, wrapped)
}

// explain adds what an operator can do about the error.
func explain(err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("%w (set --quarantine-dir to a directory on the mount of the pods directory)", err)
	}
	return change.Explain(err)
}
