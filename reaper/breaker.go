package reaper

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// stopped reports whether the breaker is open, even if the ledger could not be written.
func (r *Reaper) stopped() bool { return r.unwritten != nil || r.Ledger.BreakerOpen() }

// write appends records to the ledger. If one of them opens the breaker and cannot be written, the breaker counts as open,
// and the next write begins with that record: no intent reaches the ledger before it.
func (r *Reaper) write(records ...policy.Record) error {
	if r.unwritten != nil {
		records = slices.Concat([]policy.Record{*r.unwritten}, records)
	}
	if len(records) == 0 {
		return nil
	}
	_, err := r.Ledger.Append(records...)
	r.unwritten = nil
	if i := slices.IndexFunc(records, func(rec policy.Record) bool { return rec.Kind == policy.KindBreaker }); err != nil && i >= 0 {
		r.unwritten = new(records[i])
	}
	return err
}

// writeLiving opens the breaker and freezes the entries of quarantined pods that the look found alive. If the write fails,
// the next look finds the same.
func (r *Reaper) writeLiving(rep *Report, plan decide.Plan) {
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

// breakerRecord returns the record that opens the breaker if an outcome shows that a pod was misjudged and the breaker is not
// open. It is written before the intents and outcomes that show that, in the same write: a torn write keeps its beginning,
// and no later look would find the same. A step that is refused again and again opens the breaker once, so that an
// operator's resume holds.
func (r *Reaper) breakerRecord(outs []policy.Outcome) []policy.Record {
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
