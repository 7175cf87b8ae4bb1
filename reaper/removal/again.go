package removal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// A directory that a kubelet has created again and uses always wins: a swap would move its mounts to
// quarantine, and hide the files that its containers hold. So it is checked immediately before it would be
// exchanged with its elder, in two ways: by the caller, who sees the mounts of all namespaces, the open files
// and the runtime; and from here, by handle, which sees its content and each mount on it or right below it.
// After the exchange it is checked by handle once more, and exchanged back if anything was added in between.

var (
	errUsed    = errors.New("the directory was made again and is used")
	errNotTold = errors.New("the directory was made again, and it is not known whether it is used")
)

// unused calls exchange if nothing uses pods/UID. Otherwise pods/UID is kept, and the entry is the conflict.
func (b *batch) unused(ctx context.Context, a policy.Action, exchange func() policy.Outcome) policy.Outcome {
	if !b.r.guards.used {
		return exchange()
	}
	switch f := b.asked(ctx, a); f.Truth {
	case policy.Yes:
		return stays(a, fmt.Errorf("%w: %s", errUsed, f.Detail))
	case policy.Unknown:
		return refuse(a, policy.ReasonRemade, fmt.Errorf("%w: %s", errNotTold, f.Detail))
	case policy.No:
	}
	if err := b.holdsMore(b.h.pods, string(a.UID)); err != nil {
		return stays(a, err)
	}
	return exchange()
}

// asked asks the caller. This thread may read neither mounts nor processes (package confine), and
// the runtime starts new threads from one that is not confined.
func (b *batch) asked(ctx context.Context, a policy.Action) policy.Fact {
	if b.r.used == nil {
		return policy.Fact{Detail: "there was nothing to ask"}
	}
	answer := make(chan policy.Fact, 1)
	go func() { answer <- b.r.used(ctx, a.UID, a.Parked) }()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
		return policy.Fact{Detail: ctx.Err().Error()}
	}
}

// stays is the outcome of an entry that cannot be put back, since its pod has another directory.
func stays(a policy.Action, err error) policy.Outcome {
	o := refuse(a, policy.ReasonRemade, err)
	o.Conflict = a.Entry
	return o
}

// holdsMore returns why parent/name has more than a kubelet creates before any volume (contents.MadeFirst), or
// nil if it has not. It opens at most two levels.
func (b *batch) holdsMore(parent *beneath.Dir, name string) error {
	dir, err := parent.Step(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // gone again: the rename will fail
	case err != nil:
		return fmt.Errorf("%w: %w", errUsed, beneath.PathError("open", b.r.podsPath(name), err))
	}
	defer dir.Close()
	more, err := dir.Beyond(contents.MadeFirst)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUsed, beneath.PathError("getdents64", b.r.podsPath(name), err))
	case more != "":
		return fmt.Errorf("%w: it holds %q", errUsed, more)
	}
	return nil
}

// usedAfter looks once more at what has just gone to quarantine under the entry's name.
func (b *batch) usedAfter(a policy.Action) error {
	if !b.r.guards.used {
		return nil
	}
	return b.holdsMore(b.h.quar, a.Entry)
}

// exchangedBack reverses an exchange, since something was added to the newer directory meanwhile.
func (b *batch) exchangedBack(a policy.Action, why error) policy.Outcome {
	b.before("renameat2", string(a.UID))
	err := change.Renameat2(b.h.quar, a.Entry, b.h.pods, string(a.UID), unix.RENAME_EXCHANGE)
	if err == nil {
		return stays(a, why)
	}
	out := refuse(a, policy.ReasonCannotMove, fmt.Errorf("%w, and cannot be moved back: %w", why, beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
	out.Result = policy.Failed
	return out
}
