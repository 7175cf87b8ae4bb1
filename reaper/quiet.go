package reaper

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// writeQuiet writes that the kubelet's messages about pods have stopped. What was told is forgotten only
// once the ledger has it: a crash in between tells it twice, and counts it once in the table by days.
func (r *Reaper) writeQuiet(rep *Report) {
	records, after, _ := r.memory.Messages.Due(r.Rules, r.Clock.Now())
	if len(records) == 0 {
		return
	}
	if err := r.write(records...); err != nil {
		r.fail(rep, "cannot write to the ledger that the kubelet's messages have stopped: "+err.Error())
		return
	}
	r.memory.Messages = after
	for _, rec := range records {
		if rec.Kind == policy.KindQuiet {
			r.Meter.Quiet(rec.Lines)
		}
	}
}
