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
// When ctx ends, the current action stops at its next step, and actions that were not begun are Refused. A
// system call that does not return is waited for at most Config.Grace. Then its action is Failed and its thread
// is abandoned; actions that had ended are Failed as not synced, with their records of removed files. The call
// may still take effect when it returns, but nothing is begun after it; until then every other Execute waits
// for its own context and is Refused. Where finds the result on disk.
//
// A batch that the permit does not allow is refused as a whole, and changes nothing.
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

// unpermitted refuses all actions of a plan of which the permit does not allow one.
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

// batch is one Execute on its thread. Where it has several, each has a batch of its own: handles, actions and results are the same, and
// each action is one thread's.
type batch struct {
	r       *Remover
	h       *handles
	actions []policy.Action
	results *results
	dents   dents
	widest  *sync.Mutex    // held for the directory that has the widest buffer, of all threads
	work    *progress.Work // nil in the daemon
	// movedPods and movedQuar report which parent has to be synced.
	movedPods, movedQuar bool
	// notes are what stops no action: manifests that could not be removed, a thread that could not be
	// confined. They are logged when the thread has ended: it may not do all that a logger does.
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
	b.share(ctx)
	b.dropStrays()
	b.sync()
}

// share carries the actions out. Removals are spread over several threads, each under Landlock by itself: one
// thread handles an entry from its first name to its last, so a thread that hangs delays no entry but its own.
// Park, clear and put back move between the same two directories, which the kernel locks for each rename: more
// threads would only wait.
func (b *batch) share(ctx context.Context) {
	order, next := b.order(), atomic.Int64{}
	take := func(b *batch) {
		for n := next.Add(1) - 1; int(n) < len(order); n = next.Add(1) - 1 {
			b.turn(ctx, order[n])
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
				other.notes = append(other.notes, err) // it removes nothing, and the first thread everything
				return
			}
			take(other)
		})
	}
	take(b)
	wg.Wait() // the handles are closed after that, and the lock with them
	for i := range others {
		b.movedPods, b.movedQuar = b.movedPods || others[i].movedPods, b.movedQuar || others[i].movedQuar
		b.notes = append(b.notes, others[i].notes...)
	}
}

// turn carries out one action, unless ctx has ended.
func (b *batch) turn(ctx context.Context, i int) {
	a := b.actions[i]
	if err := ctx.Err(); err != nil {
		b.results.end(i, notBegun(a, fmt.Errorf("%w: %w", confine.ErrNotBegun, err)))
		return
	}
	if !b.results.begin(i) {
		return
	}
	o := b.one(ctx, a)
	o.Stopped = ctx.Err() != nil && !o.Ended()
	b.results.end(i, o)
}

// grants returns the directories that the batch may change. A batch that moves nothing gets no right to the
// pods directory, so a tree that is moved there during its removal is out of reach.
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

// order returns the actions in the order of their inodes, in which the walker reads entries, too. A plan of
// several kinds keeps its own order.
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
	}
	return refuse(a, policy.ReasonRemoval, fmt.Errorf("no action is called %q", a.Kind))
}

// sync makes the batch durable. An outcome whose move may be lost in a power cut is Failed: then Where finds
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

// results are the outcomes of a batch, in the plan's order. The thread that added an outcome never changes it,
// so Execute can read all of them while another thread hangs: their records of removed files are nowhere else.
type results struct {
	mu sync.Mutex
	// of holds ErrNotBegun of what has not ended.
	of           []policy.Outcome
	begun, ended []bool
	over         bool // Execute has given the batch up
}

func newResults(actions []policy.Action) *results {
	r := &results{of: make([]policy.Outcome, len(actions)), begun: make([]bool, len(actions)), ended: make([]bool, len(actions))}
	for i, a := range actions {
		r.of[i] = notBegun(a, confine.ErrNotBegun)
	}
	return r
}

// begin is false where nothing may begin any more.
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

// notSynced changes the outcomes whose changes may be lost with the power.
func (r *results) notSynced(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.of {
		notSynced(&r.of[i], err)
	}
}

// giveUp returns the outcomes as far as they are known, and lets nothing begin after it. An action that has
// ended is not synced: its intent remains open, and the next start reads the disk. An action that hangs needs
// an operator; since it is unknown which of the files that identify its volumes are gone, the record gets all
// of them.
func (r *results) giveUp() []policy.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	out := slices.Clone(r.of)
	for i := range out {
		switch o := &out[i]; {
		case r.ended[i]:
			o.Stopped = notSynced(o, confine.ErrNoAnswer) && o.Conflict == "" || o.Stopped
		case r.begun[i]:
			*o = refuse(o.Action, policy.ReasonRemoval, confine.ErrNoAnswer)
			o.Result = policy.Failed
			if e := o.Action.Evidence; e != nil && o.Action.Removes() {
				o.VolData = e.VolData
			}
		}
	}
	return out
}

// notSynced marks an outcome as Failed if the disk may not hold all of it.
func notSynced(o *policy.Outcome, err error) bool {
	if o.Result != policy.Done && o.Result != policy.Partly && o.Result != policy.Conflict {
		return false
	}
	o.Result, o.Why, o.Err = policy.Failed, []policy.Why{{Reason: policy.ReasonRemoval, Detail: "not synced"}}, err.Error()
	return true
}
