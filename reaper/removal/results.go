package removal

import (
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

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
