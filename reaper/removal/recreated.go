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

// A directory that the kubelet has recreated and uses is never exchanged with the parked one: its mounts would
// move to quarantine, and its containers would lose their files. Therefore two checks come immediately before an
// exchange: the caller reads the mounts of all namespaces, the open files and the runtime, and this package reads
// its content, and each mount on it or directly below it, by handle. The second check is repeated after the
// exchange, which is undone if anything was added meanwhile.

var (
	errUsed      = errors.New("the directory was made again and is used")
	errMaybeUsed = errors.New("the directory was made again, and it is not known whether it is used")
)

// ifUnused calls exchange if nothing uses pods/UID. Otherwise pods/UID is kept, and the entry is the conflict.
func (b *batch) ifUnused(ctx context.Context, a policy.Action, exchange func() policy.Outcome) policy.Outcome {
	if !b.r.guards.used {
		return exchange()
	}
	switch f := b.askCaller(ctx, a); f.Truth {
	case policy.Yes:
		return keepConflict(a, fmt.Errorf("%w: %s", errUsed, f.Detail))
	case policy.Unknown:
		return refuse(a, policy.ReasonRemade, fmt.Errorf("%w: %s", errMaybeUsed, f.Detail))
	case policy.No:
	}
	if err := b.holdsMore(b.h.pods, string(a.UID)); err != nil {
		return keepConflict(a, err)
	}
	return exchange()
}

// askCaller calls Config.Used on another thread: this one may read neither mounts nor processes (package confine).
// The Go runtime starts new threads only from unconfined ones.
func (b *batch) askCaller(ctx context.Context, a policy.Action) policy.Fact {
	if b.r.used == nil {
		return policy.Fact{Detail: "nothing checks for use"}
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

// keepConflict returns the outcome of an entry that cannot be put back, since its pod has another directory.
func keepConflict(a policy.Action, err error) policy.Outcome {
	o := refuse(a, policy.ReasonRemade, err)
	o.Conflict = a.Entry
	return o
}

// holdsMore returns an error if parent/name holds more than a kubelet creates before any volume
// (contents.MadeFirst). It opens at most two levels.
func (b *batch) holdsMore(parent *beneath.Dir, name string) error {
	dir, err := parent.Step(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // the rename will fail
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

// checkExchanged checks the directory that the exchange has moved to quarantine under the entry's name.
func (b *batch) checkExchanged(a policy.Action) error {
	if !b.r.guards.used {
		return nil
	}
	return b.holdsMore(b.h.quar, a.Entry)
}

// undoExchange reverses an exchange because something was added to the newer directory meanwhile.
func (b *batch) undoExchange(a policy.Action, why error) policy.Outcome {
	b.before("renameat2", string(a.UID))
	err := change.Renameat2(b.h.quar, a.Entry, b.h.pods, string(a.UID), unix.RENAME_EXCHANGE)
	if err == nil {
		return keepConflict(a, why)
	}
	return failed(a, policy.ReasonCannotMove,
		fmt.Errorf("%w, and cannot be moved back: %w", why, beneath.PathError("renameat2", b.r.quarPath(a.Entry), err)))
}
