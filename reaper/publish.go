package reaper

import (
	"log/slog"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// publish writes new records to the journal: verdicts whose reasons changed, and records of the ledger that were not sent
// yet. What cannot be sent now is sent at the next pass. It also writes the metrics.
func (r *Reaper) publish(rep *Report, claims []reported.Claim) {
	named := map[parsers.PodUID]bool{}
	for _, c := range claims {
		named[c.Sighting.UID] = true
	}
	changed := false
	for p := range policy.At(rep.Pods, policy.InPlace, policy.InRuntime) {
		changed = r.sendVerdict(p, named[p.UID], rep.Look.At) || changed
	}
	if changed && r.Store != nil {
		r.saveMemory() // with the records that were written
	}
	for r.send() {
	}
	if len(rep.Look.Errors) == 0 {
		r.Meter.Success(rep.Look.At)
	}
	r.Meter.Breaker(r.stopped())
	r.Meter.Quarantine(r.Ledger.Entries())
	r.Meter.Flush()
}

// send sends some unsent records to the journal, and reports whether there may be more.
func (r *Reaper) send() (more bool) {
	unsent := r.Ledger.Unsent()
	var sent int64
	for _, rec := range unsent {
		if err := r.Recorder.Record(rec); err != nil {
			r.Log.Error("cannot write a record to the journal; it is sent again at the next look", slog.Any("error", err))
			unsent = nil
			break
		}
		sent = rec.Seq
	}
	if sent > 0 {
		if err := r.Ledger.Sent(sent); err != nil {
			r.Log.Error("cannot save which records were sent; they may be sent again", slog.Any("error", err))
			return false
		}
	}
	return len(unsent) > 0
}

// sendVerdict writes to the journal why a pod is kept or waits, if that is news. It reports whether it did.
func (r *Reaper) sendVerdict(p *policy.Judged, named bool, at policy.Instant) bool {
	signature, news := r.memory.News(p, named)
	if !news {
		return false
	}
	rec := policy.Record{
		Kind: policy.KindKept, At: at, UID: p.UID, Namespace: p.Namespace, PodName: p.PodName,
		Decision: p.Decision, Why: p.Why, Left: p.Residue,
	}
	if err := r.Recorder.Record(rec); err != nil {
		return false
	}
	if r.memory.Recorded == nil {
		r.memory.Recorded = map[parsers.PodUID]string{}
	}
	r.memory.Recorded[p.UID] = signature
	return true
}

// writeQuiet records in the ledger for which pods the kubelet's messages have stopped, and then forgets those messages. A
// crash in between records it twice.
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
