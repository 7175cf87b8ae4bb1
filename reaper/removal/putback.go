package removal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// putBack moves quarantine/Entry back to pods/UID. If pods/UID was recreated and may be in use, it is kept, and the
// entry becomes the conflict (recreated.go). If nothing uses it, one call exchanges the two, so that the kubelet
// always finds a directory, and the newer one becomes the conflict. After a kill, a second run finds:
//
//  1. renamed: no entry, and pods/UID is the parked directory: done;
//  2. exchanged: the entry is the newer directory and pods/UID the parked one: it makes the newer one the conflict.
//     It does not exchange them again, even if something was added to the newer one, since the kubelet may have
//     used pods/UID since;
//  3. the newer one's manifest renamed: the same;
//  4. the newer one renamed: no entry, pods/UID is the parked directory, and there is a conflict: done.
func (b *batch) putBack(ctx context.Context, a policy.Action) policy.Outcome {
	if errors.Is(b.h.quarErr, unix.ENOENT) && b.stillInPods(a) {
		// The first park was killed before it made the quarantine.
		return policy.Outcome{Action: a, Result: policy.Done}
	}
	if err := b.h.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	pod, entry := string(a.UID), a.Entry
	parked, err := b.h.quar.Identify(entry)
	if errors.Is(err, unix.ENOENT) {
		return b.putBackMissing(a)
	}
	if err != nil {
		return b.refuseStep(a, b.r.quarPath(a.Entry), err)
	}
	live, liveErr := b.h.pods.Identify(pod)
	if liveErr == nil && exchanged(a.ID, parked, live) {
		return b.conflict(a)
	}
	if !sameParked(a.ID, parked) {
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("statx", b.r.quarPath(a.Entry), errReplaced))
	}
	if err := ctx.Err(); err != nil {
		return refuse(a, policy.ReasonRemoval, err)
	}
	err = b.rename(b.h.quar, entry, b.h.pods, pod)
	switch {
	case err == nil:
		b.movedPods, b.movedQuar = true, true
		return b.arrived(a, parked)
	case errors.Is(err, unix.EEXIST) && change.Is(liveErr, unix.ENOTDIR, unix.ELOOP):
		return refuse(a, policy.ReasonCannotMove, b.inTheWay(pod))
	case errors.Is(err, unix.EEXIST):
		out := b.ifUnused(ctx, a, func() policy.Outcome { return b.exchange(a, parked) })
		out.Remade = true
		return out
	case errors.Is(err, unix.ENOENT):
		return policy.Outcome{Action: a, Result: policy.Gone}
	}
	return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
}

// inTheWay returns the error for a pods/UID that is not a directory, so it is not the kubelet's.
func (b *batch) inTheWay(name string) error {
	what := "no directory"
	if st, err := b.h.pods.StatName(name); err == nil {
		what = beneath.TypeName(st.Mode)
	}
	return fmt.Errorf("%s is in the way: it is %s, which no kubelet makes; move it elsewhere", b.r.podsPath(name), what)
}

// stillInPods reports whether the directory of the plan is in the pods directory.
func (b *batch) stillInPods(a policy.Action) bool {
	if b.h.podsErr != nil || a.ID == (policy.DirID{}) {
		return false
	}
	live, err := b.h.pods.Identify(string(a.UID))
	return err == nil && sameParked(a.ID, live)
}

// exchanged reports whether a killed run has already exchanged the two. If the plan does not identify the parked
// directory, it is the older one, since the other was created later.
func exchanged(want, inQuarantine, inPods policy.DirID) bool {
	if want != (policy.DirID{}) {
		return !sameParked(want, inQuarantine) && sameParked(want, inPods)
	}
	return inPods.Btime != 0 && inPods.Btime < inQuarantine.Btime
}

// arrived checks the identity of the directory that was moved to pods/UID. Only root can have replaced it in
// quarantine.
func (b *batch) arrived(a policy.Action, parked policy.DirID) policy.Outcome {
	got, err := b.h.pods.Identify(string(a.UID))
	if err == nil && got == parked || errors.Is(err, unix.ENOENT) {
		b.dropManifest(a.Entry)
		return policy.Outcome{Action: a, Result: policy.Done}
	}
	wrong := beneath.PathError("renameat2", b.r.quarPath(a.Entry), errReplaced)
	if err := b.rename(b.h.pods, string(a.UID), b.h.quar, a.Entry); err != nil {
		return failed(a, policy.ReasonCannotMove, fmt.Errorf("%w, and cannot be moved back: %w", wrong, err))
	}
	return refuse(a, policy.ReasonCannotMove, wrong)
}

// putBackMissing returns the outcome for an entry that is not in quarantine.
func (b *batch) putBackMissing(a policy.Action) policy.Outcome {
	out := policy.Outcome{Action: a, Result: policy.Gone}
	if b.stillInPods(a) {
		b.movedPods, b.movedQuar = true, true // the killed run may not have synced
		out.Result = policy.Done
		if name := conflictName(a.Entry, 1); b.inQuarantine(name) {
			out.Result, out.Conflict = policy.Conflict, name
		}
	}
	b.dropManifest(a.Entry)
	return out
}

func (b *batch) inQuarantine(name string) bool {
	yes, err := b.h.quar.Exists(name)
	return err == nil && yes
}

// exchange swaps the parked directory and the recreated one.
func (b *batch) exchange(a policy.Action, parked policy.DirID) policy.Outcome {
	b.before("renameat2", string(a.UID))
	err := change.Renameat2(b.h.quar, a.Entry, b.h.pods, string(a.UID), unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		// The recreated one is gone. (If the parked one is gone, the next run finds that.)
		err = b.rename(b.h.quar, a.Entry, b.h.pods, string(a.UID))
		if err == nil {
			b.movedPods, b.movedQuar = true, true
			return b.arrived(a, parked)
		}
	}
	if err != nil {
		return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
	}
	b.movedPods, b.movedQuar = true, true
	if err := b.checkExchanged(a); err != nil {
		return b.undoExchange(a, err)
	}
	got, err := b.h.pods.Identify(string(a.UID))
	if err != nil || got != parked {
		return failed(a, policy.ReasonCannotMove, beneath.PathError("renameat2", b.r.quarPath(a.Entry), errReplaced))
	}
	return b.conflict(a)
}

// conflict renames the newer directory, which has the entry's name, to a conflict name.
func (b *batch) conflict(a policy.Action) policy.Outcome {
	name, err := b.asConflict(a.Entry)
	if err != nil {
		out := failed(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
		out.Remade = true
		return out
	}
	b.movedPods, b.movedQuar = true, true
	return policy.Outcome{Action: a, Result: policy.Conflict, Conflict: name}
}

// maxConflicts is more than an entry ever has: it is put back once.
const maxConflicts = 100

func conflictName(entry string, n int) string {
	if n == 1 {
		return entry + conflictSuffix
	}
	return fmt.Sprintf("%s%s.%d", entry, conflictSuffix, n)
}

// asConflict renames the entry to the first free conflict name. It renames the manifest first, so that a conflict
// always has one.
func (b *batch) asConflict(entry string) (string, error) {
	for n := 1; n <= maxConflicts; n++ {
		name := conflictName(entry, n)
		taken, err := b.h.quar.Exists(name)
		if err != nil {
			return "", err
		}
		if taken {
			continue
		}
		err = b.rename(b.h.quar, entry+manifestSuffix, b.h.quar, name+manifestSuffix)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) {
			return "", err
		}
		b.movedQuar = true
		err = b.rename(b.h.quar, entry, b.h.quar, name)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		return name, err
	}
	return "", unix.EEXIST
}

func errAttr(err error) slog.Attr { return slog.String("error", err.Error()) }
