package removal

import (
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// results are the outcomes of a batch, in the plan's order. An outcome that is in it is never changed by the thread that made it, so
// Execute can take all of them while another thread hangs: what they say of removed files stands nowhere else.
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

// giveUp returns the outcomes as far as they are known, and lets nothing begin after it. What has ended is not synced: its intent stays
// open, and the next start finds out from the disk. What hangs is for a person; which of the files that tell its volumes are gone is not
// known, so all go into the record.
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

// notSynced makes an outcome Failed that says more than the disk may hold.
func notSynced(o *policy.Outcome, err error) bool {
	if o.Result != policy.Done && o.Result != policy.Partly && o.Result != policy.Conflict {
		return false
	}
	o.Result, o.Why, o.Err = policy.Failed, []policy.Why{{Reason: policy.ReasonRemoval, Detail: "not synced"}}, err.Error()
	return true
}
