package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/sandbox"
)

// Execute carries out the plan and says for each action, in the plan's order, how it ended.
// It syncs the pods directory and the quarantine once, after the last action and before it
// returns: an outcome is told only when it is on disk. A plan to remove sandboxes holds nothing
// else, and asks the runtime instead. One without actions only removes the manifests of entries
// that are not there, as every other does at its end.
//
// When ctx ends, the action under way stops at its next step and those that were not begun
// are Refused. A system call that does not return is waited for no longer than
// Config.Grace: then the whole batch is Failed, and its thread is left behind. The call may
// still take effect when it returns, but nothing is begun after it; until then every other
// Execute waits for its own context and is Refused. Where tells what came of it.
func (r *Remover) Execute(ctx context.Context, plan policy.Batch) []policy.Outcome {
	out := make([]policy.Outcome, len(plan.Actions))
	for i, a := range plan.Actions {
		out[i] = notBegun(a, confine.ErrNotBegun)
	}
	if len(plan.Actions) > 0 && plan.Actions[0].Kind == policy.RemoveSandbox { // a plan of its own: no directory, no thread
		return sandbox.Remove(ctx, plan.Actions)
	}
	b := &batch{r: r, actions: plan.Actions, outcomes: make([]policy.Outcome, len(plan.Actions))}
	switch err := r.run.Run(ctx, func() { b.run(ctx) }); {
	case err == nil:
		for _, err := range b.notes {
			r.log.WarnContext(ctx, "cannot remove a manifest", errAttr(err))
		}
		return b.outcomes
	case errors.Is(err, confine.ErrNoAnswer):
		for i := range out {
			out[i] = refuse(plan.Actions[i], policy.ReasonRemoval, confine.ErrNoAnswer)
			out[i].Result = policy.Failed
		}
	}
	return out
}

// batch is one Execute on its thread.
type batch struct {
	r        *Remover
	h        *handles
	actions  []policy.Action
	outcomes []policy.Outcome
	dents    dents
	// movedPods and movedQuar say which parent has to be synced.
	movedPods, movedQuar bool
	// notes are the manifests that could not be removed. They are logged when the thread has
	// ended: it may not do all that a logger does.
	notes []error
}

func (b *batch) run(ctx context.Context) {
	b.h = b.r.openHandles(slices.ContainsFunc(b.actions, func(a policy.Action) bool {
		return a.Kind == policy.Park || a.Kind == policy.Clear
	}))
	defer b.h.close()
	err := b.r.run.Confine(b.grants()...)
	if err == nil {
		err = b.lock()
	}
	if err != nil {
		for i, a := range b.actions {
			b.outcomes[i] = refuse(a, policy.ReasonRemoval, err)
		}
		return
	}
	for _, i := range b.order() {
		a := b.actions[i]
		if err := ctx.Err(); err != nil {
			b.outcomes[i] = notBegun(a, fmt.Errorf("%w: %w", confine.ErrNotBegun, err))
			continue
		}
		b.outcomes[i] = b.one(ctx, a)
		b.outcomes[i].Stopped = ctx.Err() != nil && !b.outcomes[i].Ended()
	}
	b.dropStrays()
	b.sync()
}

// grants are the directories that the batch may change. One that moves nothing has no business in the
// pods directory: what somebody moves there while it is removed is out of reach.
func (b *batch) grants() []confine.Grant {
	grants := []confine.Grant{{FD: b.h.quar, Rights: confine.MayMove}}
	if slices.ContainsFunc(b.actions, func(a policy.Action) bool { return !a.Removes() }) {
		grants = append(grants, confine.Grant{FD: b.h.pods, Rights: confine.MayMove})
	}
	return grants
}

var errBusy = errors.New("another orphan-reaper is at work in the quarantine; try again")

// lock keeps a second process, as a person's restore beside the daemon, from working in the
// quarantine at the same time. The kernel lets it go when the handle is closed, however the
// process ends.
func (b *batch) lock() error {
	if b.h.quarErr != nil {
		return nil //nolint:nilerr // each action says so itself
	}
	err := beneath.Uninterrupted(func() error { return unix.Flock(b.h.quar, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	if err != nil {
		return beneath.PathError("flock", b.r.quarPath(""), err)
	}
	return nil
}

// order takes the actions by inode, as the walker takes entries. A plan of several kinds
// keeps its own order.
func (b *batch) order() []int {
	order := make([]int, len(b.actions))
	for i := range order {
		order[i] = i
	}
	if slices.ContainsFunc(b.actions, func(a policy.Action) bool { return a.Kind != b.actions[0].Kind }) {
		return order
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(b.actions[x].ID.Ino, b.actions[y].ID.Ino)
	})
	return order
}

func (b *batch) one(ctx context.Context, a policy.Action) policy.Outcome {
	if err := validate(a.UID, a.Entry); err != nil {
		return refuse(a, policy.ReasonInvalidUID, err)
	}
	switch a.Kind {
	case policy.Park:
		return b.park(ctx, a)
	case policy.Clear:
		return b.clear(ctx, a)
	case policy.PutBack:
		if isLeaf(a.Entry) {
			return b.putBackLeaf(ctx, a)
		}
		return b.putBack(ctx, a)
	case policy.Strip, policy.Purge:
		return b.remove(ctx, a)
	case policy.RemoveSandbox: // never among others
	}
	return refuse(a, policy.ReasonRemoval, fmt.Errorf("no action is called %q", a.Kind))
}

// sync makes the batch durable. An outcome whose move may be lost with the power is Failed:
// the disk knows better than the ledger then, and Where tells.
func (b *batch) sync() {
	var err error
	if b.movedQuar {
		if e := change.Fsync(b.h.quar); e != nil {
			err = beneath.PathError("fsync", b.r.quarPath(""), e)
		}
	}
	if b.movedPods {
		if e := change.Fsync(b.h.pods); e != nil {
			err = errors.Join(err, beneath.PathError("fsync", b.r.podsPath(""), e))
		}
	}
	if err == nil {
		return
	}
	for i := range b.outcomes {
		o := &b.outcomes[i]
		switch o.Result {
		case policy.Done, policy.Partly, policy.Conflict:
			o.Result, o.Why, o.Err = policy.Failed, []policy.Why{{Reason: policy.ReasonRemoval, Detail: "not synced"}}, err.Error()
		case policy.Gone, policy.Refused, policy.Failed:
		}
	}
}

// before tells a test which change comes next.
func (b *batch) before(op, name string) {
	if b.r.guards.before != nil {
		b.r.guards.before(op, name)
	}
}

// notBegun is the outcome of an action that ctx stopped before its first step.
func notBegun(a policy.Action, err error) policy.Outcome {
	o := refuse(a, policy.ReasonRemoval, err)
	o.Stopped = true
	return o
}

func refuse(a policy.Action, reason policy.Reason, err error) policy.Outcome {
	return policy.Outcome{
		Action: a, Result: policy.Refused, Err: err.Error(),
		Why: []policy.Why{{Reason: reason, Detail: err.Error()}},
	}
}
