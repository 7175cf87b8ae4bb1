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

// putBack moves quarantine/Entry back to pods/UID. If the directory was created again and is used, or may be,
// it is kept, and the entry remains as the conflict: see again.go. If nothing uses it, the two change places in
// one call, so that a kubelet always finds one, and the newer becomes a conflict. A second run after a kill
// finds, after each step:
//
//  1. renamed: no entry; pods/UID is the parked one: done;
//  2. exchanged: the entry is the newer one and pods/UID the parked one: on to the conflict. What came to the newer
//     one in that moment stays in it, in quarantine: the kubelet may have used the other since, and a second
//     exchange would take that from it;
//  3. the newer one's manifest renamed: the same;
//  4. the newer one renamed: no entry; pods/UID is the parked one and a conflict is there.
func (b *batch) putBack(ctx context.Context, a policy.Action) policy.Outcome {
	if errors.Is(b.h.quarErr, unix.ENOENT) && b.neverMoved(a) {
		// Of the first park ever, killed before it made the quarantine.
		return policy.Outcome{Action: a, Result: policy.Done}
	}
	if err := b.movable(); err != nil {
		return refuse(a, policy.ReasonCannotMove, err)
	}
	pod, entry := string(a.UID), a.Entry
	parked, err := b.h.quar.Identify(entry)
	if errors.Is(err, unix.ENOENT) {
		return b.putBackBefore(a)
	}
	if err != nil {
		return b.refuseStep(a, b.r.quarPath(a.Entry), err)
	}
	live, liveErr := b.h.pods.Identify(pod)
	if liveErr == nil && exchanged(a.ID, parked, live) {
		return b.conflict(a)
	}
	if !sameParked(a.ID, parked) {
		return refuse(a, policy.ReasonCannotMove, beneath.PathError("statx", b.r.quarPath(a.Entry), errOther))
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
		out := b.unused(ctx, a, func() policy.Outcome { return b.exchange(a, parked) })
		out.Remade = true
		return out
	case errors.Is(err, unix.ENOENT):
		return policy.Outcome{Action: a, Result: policy.Gone}
	}
	return refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
}

// inTheWay returns the error for a name in the pods directory that is no directory, so no kubelet made it.
func (b *batch) inTheWay(name string) error {
	what := "no directory"
	if st, err := b.h.pods.StatName(name); err == nil {
		what = beneath.TypeName(st.Mode)
	}
	return fmt.Errorf("%s is in the way: it is %s, which no kubelet makes; move it elsewhere", b.r.podsPath(name), what)
}

// neverMoved reports whether the directory of the plan hangs in the pods directory.
func (b *batch) neverMoved(a policy.Action) bool {
	if b.h.podsErr != nil || a.ID == (policy.DirID{}) {
		return false
	}
	live, err := b.h.pods.Identify(string(a.UID))
	return err == nil && sameParked(a.ID, live)
}

// exchanged reports whether a killed run has already exchanged the two. If the plan has no identity of the
// parked one, it is the older of them: the other was created while it was away.
func exchanged(want, inQuarantine, inPods policy.DirID) bool {
	if want != (policy.DirID{}) {
		return !sameParked(want, inQuarantine) && sameParked(want, inPods)
	}
	return inPods.Btime != 0 && inPods.Btime < inQuarantine.Btime
}

// arrived checks what came to pods/UID. Only root can have swapped it in quarantine.
func (b *batch) arrived(a policy.Action, parked policy.DirID) policy.Outcome {
	got, err := b.h.pods.Identify(string(a.UID))
	if err == nil && got == parked || errors.Is(err, unix.ENOENT) {
		b.dropManifest(a.Entry)
		return policy.Outcome{Action: a, Result: policy.Done}
	}
	wrong := beneath.PathError("renameat2", b.r.quarPath(a.Entry), errOther)
	if err := b.rename(b.h.pods, string(a.UID), b.h.quar, a.Entry); err != nil {
		out := refuse(a, policy.ReasonCannotMove, fmt.Errorf("%w, and cannot be moved back: %w", wrong, err))
		out.Result = policy.Failed
		return out
	}
	return refuse(a, policy.ReasonCannotMove, wrong)
}

// putBackBefore is for an entry that is not there.
func (b *batch) putBackBefore(a policy.Action) policy.Outcome {
	out := policy.Outcome{Action: a, Result: policy.Gone}
	if b.neverMoved(a) {
		b.movedPods, b.movedQuar = true, true // the killed run may not have synced
		out.Result = policy.Done
		if name := conflictName(a.Entry, 1); b.there(name) {
			out.Result, out.Conflict = policy.Conflict, name
		}
	}
	b.dropManifest(a.Entry)
	return out
}

func (b *batch) there(name string) bool {
	yes, err := b.h.quar.Exists(name)
	return err == nil && yes
}

// exchange swaps the parked directory with the one that was made again.
func (b *batch) exchange(a policy.Action, parked policy.DirID) policy.Outcome {
	b.before("renameat2", string(a.UID))
	err := change.Renameat2(b.h.quar, a.Entry, b.h.pods, string(a.UID), unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) {
		// The newer one is gone (or the parked one is, which the next run finds).
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
	if err := b.usedAfter(a); err != nil {
		return b.exchangedBack(a, err)
	}
	got, err := b.h.pods.Identify(string(a.UID))
	if err != nil || got != parked {
		out := refuse(a, policy.ReasonCannotMove, beneath.PathError("renameat2", b.r.quarPath(a.Entry), errOther))
		out.Result = policy.Failed
		return out
	}
	return b.conflict(a)
}

// conflict gives the newer directory, which is under the entry's name, a name of its own.
func (b *batch) conflict(a policy.Action) policy.Outcome {
	name, err := b.asConflict(a.Entry)
	if err != nil {
		out := refuse(a, policy.ReasonCannotMove, explain(beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
		out.Result, out.Remade = policy.Failed, true
		return out
	}
	b.movedPods, b.movedQuar = true, true
	return policy.Outcome{Action: a, Result: policy.Conflict, Conflict: name}
}

// maxConflicts is far more than one entry can have: an entry is put back once.
const maxConflicts = 100

func conflictName(entry string, n int) string {
	if n == 1 {
		return entry + conflictSuffix
	}
	return fmt.Sprintf("%s%s.%d", entry, conflictSuffix, n)
}

// asConflict renames the entry to the first conflict name that is free, its manifest
// before it, so that a conflict always has one.
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
