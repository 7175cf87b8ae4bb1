package reaper

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// stopped reports whether the breaker is open, also where only this process knows.
func (r *Reaper) stopped() bool { return r.owed != nil || r.Ledger.BreakerOpen() }

// write appends records to the ledger. A breaker among them that could not be written counts as open, and is written before
// all else: no intent reaches the ledger without it.
func (r *Reaper) write(records ...policy.Record) error {
	if r.owed != nil {
		records = slices.Concat([]policy.Record{*r.owed}, records)
	}
	if len(records) == 0 {
		return nil
	}
	_, err := r.Ledger.Append(records...)
	r.owed = nil
	if i := slices.IndexFunc(records, func(rec policy.Record) bool { return rec.Kind == policy.KindBreaker }); err != nil && i >= 0 {
		owed := records[i]
		r.owed = &owed
	}
	return err
}

// writeSeen writes what the look has seen of pods that live again: their entries stay, and the breaker opens. If that fails,
// the next look sees the same.
func (r *Reaper) writeSeen(rep *Report, plan decide.Plan) {
	var records []policy.Record
	if plan.Breaker != nil && !r.stopped() {
		rec := *plan.Breaker
		rec.At = r.Clock.Now()
		records = append(records, rec)
	}
	if err := r.write(append(records, plan.Frozen...)...); err != nil {
		r.fail(rep, "cannot write to the ledger which pods live again: "+err.Error())
	}
}

// misjudged returns the record that opens the breaker, unless it is open, if a pod lives by an outcome or by why it is put
// back. It precedes the intents and outcomes that show that, in the same write: of a torn write the beginning remains, and
// no later look would show it again. A step that is refused again and again opens the breaker once, so that an operator's
// resume holds.
func (r *Reaper) misjudged(outs []policy.Outcome) []policy.Record {
	i := slices.IndexFunc(outs, func(o policy.Outcome) bool {
		return o.Misjudged() && (o.Conflict != "" || !r.memory.Tried(o.Action.Entry))
	})
	if i < 0 || r.stopped() {
		return nil
	}
	rec := policy.Record{Kind: policy.KindBreaker, At: r.Clock.Now(), UID: outs[i].Action.UID, Why: outs[i].Why}
	if e := outs[i].Action.Evidence; e != nil {
		rec.Namespace, rec.PodName = e.Namespace, e.PodName
	}
	return []policy.Record{rec}
}
