package reaper

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// stop opens the breaker, unless it is open.
func (r *Reaper) stop(rep *Report, rec policy.Record) {
	if r.Ledger.BreakerOpen() {
		return
	}
	rec.At = r.Clock.Now()
	if _, err := r.Ledger.Append(rec); err != nil {
		r.fail(rep, "cannot write to the ledger that enforcing stopped: "+err.Error())
	}
}

// livesAfterAll returns the record that opens the breaker, unless it is open, where an outcome shows
// that its pod lives. It is written together with the outcomes: killed between the two, nobody would
// know of it. Killed before both, the next start finds the same on disk.
func (r *Reaper) livesAfterAll(outs []policy.Outcome) []policy.Record {
	i := slices.IndexFunc(outs, policy.Outcome.MadeAgain)
	if i < 0 || r.Ledger.BreakerOpen() {
		return nil
	}
	rec := policy.Record{Kind: policy.KindBreaker, At: r.Clock.Now(), UID: outs[i].Action.UID, Why: outs[i].Why}
	if e := outs[i].Action.Evidence; e != nil {
		rec.Namespace, rec.PodName = e.Namespace, e.PodName
	}
	return []policy.Record{rec}
}
