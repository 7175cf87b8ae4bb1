package reaper

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// refusal is a step that the kernel or the file system refused. Trying again at every look
// would fill the ledger with the same words.
type refusal struct {
	why  []policy.Why
	next time.Duration // not to be tried before, on the boot clock
	gap  time.Duration
}

// The least and the longest time between two tries to park a pod that cannot be moved.
const (
	retryFirst = 5 * time.Minute
	retryLast  = time.Hour
	// retryStuck is the least for what lies in quarantine: it may have to go back.
	retryStuck = 30 * time.Second
)

// tooSoon says whether the last step with the entry failed not long ago. Each try writes to
// the ledger, which drops nothing of an entry that is there.
func (r *Reaper) tooSoon(entry string, now time.Duration) bool {
	no := r.stuck[entry]
	return no != nil && now < no.next
}

// learnStuck remembers which steps with quarantine entries failed.
func (r *Reaper) learnStuck(o policy.Outcome, now time.Duration) {
	if o.Result != policy.Failed && o.Result != policy.Refused {
		delete(r.stuck, o.Action.Entry)
		return
	}
	no := r.stuck[o.Action.Entry]
	if no == nil {
		no = &refusal{gap: retryStuck}
		if r.stuck == nil {
			r.stuck = map[string]*refusal{}
		}
		r.stuck[o.Action.Entry] = no
	}
	no.next, no.gap = now+no.gap, min(2*no.gap, retryLast)
}

// heed keeps the pods whose last try was refused, until it is time for another.
func (r *Reaper) heed(rep *Report) {
	for _, verdicts := range [...][]policy.Verdict{rep.Verdicts, rep.RuntimeOnly} {
		for i := range verdicts {
			v := &verdicts[i]
			goes := v.Decision == policy.Reap || len(v.Leaves) > 0 || len(v.Sandboxes) > 0
			if no := r.refused[v.UID]; no != nil && goes && rep.Look.At.Boot < no.next {
				v.Refuse(no.why)
			}
		}
	}
}

// learn remembers which parks were refused, which leaves could not be cleared, and which
// sandboxes not removed. A sandbox whose turn did not come is tried again at the next look.
func (r *Reaper) learn(outs []policy.Outcome, now time.Duration) {
	for _, o := range outs {
		ofLeaf := o.Action.Kind == policy.Clear
		if o.Action.Kind == policy.PutBack {
			delete(r.clearing, o.Action.UID)
		}
		sandbox := o.Action.Kind == policy.RemoveSandbox
		if o.Action.Kind != policy.Park && !ofLeaf && !sandbox {
			r.learnStuck(o, now)
			continue
		}
		if sandbox && notBegun(o) {
			continue
		}
		if o.Result != policy.Refused && (o.Action.Kind == policy.Park || o.Result != policy.Failed) {
			delete(r.refused, o.Action.UID)
			continue
		}
		no := r.refused[o.Action.UID]
		if no == nil {
			no = &refusal{gap: retryFirst}
			if r.refused == nil {
				r.refused = map[parsers.PodUID]*refusal{}
			}
			r.refused[o.Action.UID] = no
		}
		no.why, no.next, no.gap = o.Why, now+no.gap, min(2*no.gap, retryLast)
	}
}

// notBegun: the runtime took too long for the sandboxes before this one.
func notBegun(o policy.Outcome) bool {
	return o.Result == policy.Refused && len(o.Why) > 0 && o.Why[0].Reason == policy.ReasonLimit
}
