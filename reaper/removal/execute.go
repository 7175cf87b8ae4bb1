package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// Execute carries out the plan and returns one outcome for each action, in the plan's order. It syncs the pods
// directory and the quarantine once, after the last action, so an outcome is returned only when it is on disk.
// Like every plan, one without actions removes the manifests of entries that no longer exist.
//
// When ctx ends, the current action stops at its next step, and actions that were not begun are Refused. If a
// system call does not return within Config.Grace, its action is Failed and its thread is abandoned; actions
// that had ended are Failed as not synced, with their records of removed files. The call may still take effect
// when it returns, but no other follows it. Until it returns, every other Execute waits until its own context
// ends and is Refused. Where reports the result on disk.
//
// A batch with an action that the permit does not allow is refused as a whole, and changes nothing.
func (r *Remover) Execute(ctx context.Context, permit policy.Permit, plan policy.Batch) []policy.Outcome {
	if refused := unpermitted(permit, plan); refused != nil || !permit.Undoes() && len(plan.Actions) == 0 {
		return refused
	}
	b := &batch{r: r, actions: plan.Actions, results: newResults(plan.Actions), widest: new(sync.Mutex), work: progress.From(ctx)}
	switch err := r.run.Run(ctx, func() { b.run(ctx) }); {
	case errors.Is(err, confine.ErrNoAnswer):
		return b.results.giveUp()
	case err == nil:
		for _, err := range b.notes {
			r.log.WarnContext(ctx, "a batch left something undone", errAttr(err))
		}
	}
	return b.results.of
}

// unpermitted refuses all actions of a plan if the permit does not allow one of them.
func unpermitted(permit policy.Permit, plan policy.Batch) (refused []policy.Outcome) {
	if !slices.ContainsFunc(plan.Actions, func(a policy.Action) bool { return !permit.Allows(a) }) {
		return nil
	}
	for _, a := range plan.Actions {
		refused = append(refused, refuse(a, policy.ReasonRemoval, errNoPermit))
	}
	return refused
}

var errNoPermit = errors.New("this process may not change the node now")

// batch is one thread of an Execute. The threads of one Execute share handles, actions and results, and one
// thread carries out each action.
type batch struct {
	r       *Remover
	h       *handles
	actions []policy.Action
	results *results
	dents   dents
	widest  *sync.Mutex    // held by the one directory of all threads that has the widest buffer
	work    *progress.Work // nil in the daemon
	// movedPods and movedQuar report which parent has to be synced.
	movedPods, movedQuar bool
	// notes are errors that stop no action: manifests that could not be removed, a thread that could not be
	// confined. They are logged when the thread has ended, since Landlock may prevent it from logging.
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
			b.results.end(i, refuse(a, policy.ReasonRemoval, err))
		}
		return
	}
	b.runActions(ctx)
	b.dropStrays()
	b.sync()
}

// runActions carries the actions out. Removals are spread over several confined threads. One thread removes all of
// an entry, so a thread that hangs delays only its own entry. Park, clear and put back use one thread: they move
// between the same two directories, which the kernel locks for each rename.
func (b *batch) runActions(ctx context.Context) {
	order, next := b.order(), atomic.Int64{}
	take := func(b *batch) {
		for n := next.Add(1) - 1; int(n) < len(order); n = next.Add(1) - 1 {
			b.runAction(ctx, order[n])
		}
	}
	threads := min(b.r.threads, len(order))
	if slices.ContainsFunc(b.actions, func(a policy.Action) bool { return !a.Removes() }) {
		threads = 1
	}
	others := make([]batch, max(0, threads-1))
	var wg sync.WaitGroup
	for i := range others {
		other := &others[i]
		*other = batch{r: b.r, h: b.h, actions: b.actions, results: b.results, widest: b.widest, work: b.work}
		wg.Add(1)
		bounded.OnOwnThread(func() {
			defer wg.Done()
			if err := other.r.run.Confine(other.grants()...); err != nil {
				other.notes = append(other.notes, err) // the first thread removes everything
				return
			}
			take(other)
		})
	}
	take(b)
	wg.Wait() // before the handles, and the lock with them, are closed
	for i := range others {
		b.movedPods, b.movedQuar = b.movedPods || others[i].movedPods, b.movedQuar || others[i].movedQuar
		b.notes = append(b.notes, others[i].notes...)
	}
}

// runAction carries out one action, unless ctx has ended.
func (b *batch) runAction(ctx context.Context, i int) {
	a := b.actions[i]
	if err := ctx.Err(); err != nil {
		b.results.end(i, notBegun(a, fmt.Errorf("%w: %w", confine.ErrNotBegun, err)))
		return
	}
	if !b.results.begin(i) {
		return
	}
	o := b.dispatch(ctx, a)
	o.Stopped = ctx.Err() != nil && !o.Ended()
	b.results.end(i, o)
}

// grants returns the directories that the batch may change. A batch that only removes gets no right to the pods
// directory, so it cannot change a tree that is moved there meanwhile.
func (b *batch) grants() []confine.Grant {
	grants := []confine.Grant{{FD: b.h.quar.FD(), Rights: confine.MayMove}}
	if slices.ContainsFunc(b.actions, func(a policy.Action) bool { return !a.Removes() }) {
		grants = append(grants, confine.Grant{FD: b.h.pods.FD(), Rights: confine.MayMove})
	}
	return grants
}

var errBusy = errors.New("another orphan-reaper is at work in the quarantine; try again")

// lock keeps a second process, such as an operator's restore beside the daemon, from working in the quarantine
// at the same time. The kernel releases it when the handle is closed, however the process ends.
func (b *batch) lock() error {
	if b.h.quarErr != nil {
		return nil //nolint:nilerr // each action reports it
	}
	err := beneath.Uninterrupted(func() error { return unix.Flock(b.h.quar.FD(), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	if err != nil {
		return beneath.PathError("flock", b.r.quarPath(""), err)
	}
	return nil
}

// order returns the indexes of the actions in the order of their inodes, for the reason given at sortFrom. A plan
// of several kinds keeps its own order.
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

func (b *batch) dispatch(ctx context.Context, a policy.Action) policy.Outcome {
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
	}
	return refuse(a, policy.ReasonRemoval, fmt.Errorf("no action is called %q", a.Kind))
}

// sync makes the batch durable. If it cannot, outcomes that a power cut may undo are Failed, and Where reports
// the result on disk.
func (b *batch) sync() {
	var err error
	if b.movedQuar {
		if e := change.Fsync(b.h.quar.FD()); e != nil {
			err = beneath.PathError("fsync", b.r.quarPath(""), e)
		}
	}
	if b.movedPods {
		if e := change.Fsync(b.h.pods.FD()); e != nil {
			err = errors.Join(err, beneath.PathError("fsync", b.r.podsPath(""), e))
		}
	}
	if err != nil {
		b.results.notSynced(err)
	}
}

// before is the test hook before each change.
func (b *batch) before(op, name string) {
	if b.r.guards.before != nil {
		b.r.guards.before(op, name)
	}
}

// notBegun returns the outcome of an action that ctx stopped before its first step.
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

// failed is refuse for an action that may have changed something.
func failed(a policy.Action, reason policy.Reason, err error) policy.Outcome {
	out := refuse(a, reason, err)
	out.Result = policy.Failed
	return out
}

// results holds the outcomes of a batch, in the plan's order. A thread never changes an outcome that it has added,
// so Execute can read them while another thread hangs: only they record the removed files.
type results struct {
	mu sync.Mutex
	// of holds ErrNotBegun for actions that have not ended.
	of           []policy.Outcome
	begun, ended []bool
	over         bool // Execute has abandoned the batch
}

func newResults(actions []policy.Action) *results {
	r := &results{of: make([]policy.Outcome, len(actions)), begun: make([]bool, len(actions)), ended: make([]bool, len(actions))}
	for i, a := range actions {
		r.of[i] = notBegun(a, confine.ErrNotBegun)
	}
	return r
}

// begin reports whether the action may begin, which ends when the batch is abandoned.
func (r *results) begin(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[i] = !r.over
	return r.begun[i]
}

func (r *results) end(i int, o policy.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[i], r.ended[i] = o, true
}

// notSynced marks the outcomes that a power cut may undo as Failed.
func (r *results) notSynced(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.of {
		markNotSynced(&r.of[i], err)
	}
}

// giveUp abandons the batch, so that no action begins after it, and returns the known outcomes. An action that has
// ended is not synced: its intent remains open, and the next start reads the disk. An action that hangs needs an
// operator. It may have removed any of the files that identify its volumes, so the record gets all of them.
func (r *results) giveUp() []policy.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	out := slices.Clone(r.of)
	for i := range out {
		switch o := &out[i]; {
		case r.ended[i]:
			o.Stopped = markNotSynced(o, confine.ErrNoAnswer) && o.Conflict == "" || o.Stopped
		case r.begun[i]:
			*o = failed(o.Action, policy.ReasonRemoval, confine.ErrNoAnswer)
			if e := o.Action.Evidence; e != nil && o.Action.Removes() {
				o.VolData = e.VolData
			}
		}
	}
	return out
}

// markNotSynced marks an outcome as Failed if the disk may not hold all of it, and reports whether it did.
func markNotSynced(o *policy.Outcome, err error) bool {
	if o.Result != policy.Done && o.Result != policy.Partly && o.Result != policy.Conflict {
		return false
	}
	o.Result, o.Why, o.Err = policy.Failed, []policy.Why{{Reason: policy.ReasonRemoval, Detail: "not synced"}}, err.Error()
	return true
}
