package reaper

import (
	"log/slog"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// publish shows people what is new: refusals whose reasons changed, and every record of the
// ledger that the journal has not got. What cannot be told now is told at the next pass.
func (r *Reaper) publish(rep *Report, claims []reported.Claim) {
	named := map[parsers.PodUID]bool{}
	for _, c := range claims {
		named[c.Sighting.UID] = true
	}
	changed := false
	for i, v := range rep.Verdicts {
		changed = r.tellVerdict(v, rep.Look.Pods[i], named[v.UID], rep.Look.At) || changed
	}
	for i, v := range rep.RuntimeOnly {
		changed = r.tellVerdict(v, rep.Look.RuntimeOnly[i], named[v.UID], rep.Look.At) || changed
	}
	if changed && r.Store != nil {
		if err := r.Store.Save("holds", r.memory); err != nil {
			r.Log.Error("cannot save which records were written; they may be written again after a restart", slog.Any("error", err))
		}
	}
	for r.send() {
	}
	if len(rep.Look.Errors) == 0 {
		r.Meter.Success(rep.Look.At)
	}
	r.Meter.Breaker(r.stopped())
	r.Meter.Quarantine(r.Ledger.Entries())
	if err := r.Meter.Flush(); err != nil {
		r.Log.Error("cannot write the metrics file", slog.Any("error", err))
	}
}

// send sends some of the records that the journal has not got, and says whether there may
// be more.
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
			r.Log.Error("cannot note that records were sent; they may be sent again", slog.Any("error", err))
			return false
		}
	}
	return len(unsent) > 0
}

// tellVerdict tells why a pod is kept or waits, where that is news.
func (r *Reaper) tellVerdict(v policy.Verdict, e policy.Evidence, named bool, at policy.Instant) bool {
	words, news := r.memory.News(&v, named)
	if !news {
		return false
	}
	rec := policy.Record{
		Kind: policy.KindKept, At: at, UID: v.UID, Namespace: e.Namespace, PodName: e.PodName,
		Decision: v.Decision, Why: v.Why, Left: e.Residue,
	}
	if err := r.Recorder.Record(rec); err != nil {
		return false
	}
	if r.memory.Told == nil {
		r.memory.Told = map[parsers.PodUID]string{}
	}
	r.memory.Told[v.UID] = words
	return true
}
