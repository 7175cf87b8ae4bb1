package reaper

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// How soon to look again where nothing but a look can tell whether something changed.
const (
	lookSoon   = 30 * time.Second // a parked pod waits for an answer
	lookAgain  = 5 * time.Minute  // an orphan is kept
	lookRarely = time.Hour        // nothing is known to be left
)

// tell shows people what is new: refusals whose reasons changed, and every record of the
// ledger that the journal has not got. What cannot be told now is told at the next pass.
func (r *Reaper) tell(rep *Report, claims []policy.Claim) {
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
			r.Log.Error("cannot keep what was told; it may be told again after a restart", slog.Any("error", err))
		}
	}
	for r.send() {
	}
	if len(rep.Look.Errors) == 0 {
		r.Meter.Success(rep.Look.At)
	}
	if rep.CNI.Swept {
		r.Meter.CNI(rep.CNI.Census)
	}
	r.Meter.Breaker(r.Ledger.BreakerOpen())
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
		if err := r.Teller.Tell(rec); err != nil {
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

// tellVerdict tells why a pod is kept or waits, once for each set of reasons. Pods that
// plainly live are not worth a word unless the kubelet's log named them.
func (r *Reaper) tellVerdict(v policy.Verdict, e policy.Evidence, named bool, at policy.Instant) bool {
	if v.UID == "" {
		return false
	}
	last, known := r.memory.Told[v.UID]
	if !known && v.Living() && !named {
		return false
	}
	now := signature(v)
	// The slow start is over in a moment: no word for that.
	if v.Decision == policy.Reap || len(v.Leaves) > 0 || len(v.Sandboxes) > 0 || now == last || v.For(policy.ReasonLimit) {
		return false
	}
	rec := policy.Record{
		Kind: policy.KindKept, At: at, UID: v.UID, Namespace: e.Namespace, PodName: e.PodName,
		Decision: v.Decision, Why: v.Why, Left: e.Residue,
	}
	if err := r.Teller.Tell(rec); err != nil {
		return false
	}
	if r.memory.Told == nil {
		r.memory.Told = map[parsers.PodUID]string{}
	}
	r.memory.Told[v.UID] = now
	return true
}

// signature is what makes two refusals the same: the reasons, not the seconds in their
// details, and of a pod that is kept not those that end by themselves. Of a pod that lives it
// is always the same: which of the facts show that changes all the time, and a pod that has
// itself named by forged lines must not buy a record or a look for each change.
func signature(v policy.Verdict) string {
	if v.Living() {
		return "living"
	}
	words := []string{string(v.Decision)}
	for _, w := range v.Why {
		passing := w.Reason == policy.ReasonYoung || w.Reason == policy.ReasonHold || w.Reason == policy.ReasonKubeletStarting
		if v.Decision != policy.Keep || !passing {
			words = append(words, string(w.Reason))
		}
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}

// schedule says when to look again although nobody calls.
func (rep *Report) schedule(rules policy.Rules, now policy.Instant) {
	next := lookRarely
	pending := false
	soon := func(d time.Duration, waiting bool) {
		next = min(next, max(0, d))
		pending = pending || waiting
	}
	for _, v := range slices.Concat(rep.Verdicts, rep.RuntimeOnly) {
		if v.Again > 0 {
			soon(v.Again, false)
		}
		switch {
		case v.UID == "" || v.Living():
		case v.Decision == policy.Wait && v.Due > 0:
			// Longer than any rule waits: a time stamp of a clock that was set back since.
			soon(v.Due, v.Due <= max(rules.Hold, rules.Settle))
		case v.Decision == policy.Wait && v.For(policy.ReasonLimit) && !rep.confirming():
			soon(rep.nextTry(), true)
		case v.Decision == policy.Wait && v.For(policy.ReasonLimit):
		case v.Decision == policy.Wait:
			soon(lookSoon, false)
		case v.Decision == policy.Keep:
			soon(lookAgain, false)
		}
	}
	if rep.CNI.Pending {
		soon(rep.CNI.Due(), true)
	}
	for _, e := range rep.Entries {
		switch e.Phase {
		case policy.PhaseParked:
			since, ok := now.Since(e.Parked.At)
			switch {
			case rules.Observe: // it stays where it is
				soon(lookAgain, false)
			case ok && since < rules.Confirm:
				soon(rules.Confirm-since, true)
			case rep.justParked(e.Entry):
				soon(0, true)
			default: // something keeps it from being settled, and may do so for ever
				soon(lookSoon, false)
			}
		case policy.PhaseHeld:
			if left, ok := policy.PurgeIn(e, rules, now, rep.Look.Node.Pressed()); ok {
				soon(rep.untilPurge(e.Entry, left), false)
			}
		case policy.PhaseParking, policy.PhaseClearing, policy.PhasePutting, policy.PhaseStripping, policy.PhasePurging, policy.PhaseRestoring:
			soon(lookAgain, false)
		case policy.PhaseNone, policy.PhaseConflict, policy.PhaseUnlisted, policy.PhaseSweeping, policy.PhaseGone:
		}
	}
	if slices.ContainsFunc(rep.Outcomes, func(o policy.Outcome) bool {
		return o.Action.Kind == policy.PutBack && len(o.Action.Why) > 0 && o.Action.Why[0].Reason == policy.ReasonMountsUnknown
	}) {
		soon(lookSoon, true) // the scan after parking could not be made: nothing is said against the pod
	}
	if slices.ContainsFunc(rep.Outcomes, func(o policy.Outcome) bool {
		return o.Action.Kind == policy.RemoveSandbox && o.Result == policy.Done
	}) {
		next, pending = 0, true // the pod's hold begins with a look that sees it without the sandbox
	}
	if rep.progressed() {
		// What was taken may let the next one go, and the kubelet names the next at once.
		next = 0
	}
	rep.Next, rep.Pending = next, pending
}

// nextTry is when to try another pod after the one that was to go first could not be moved:
// soon, and the later the more of them there are, since then the cause is not the pod's.
func (rep *Report) nextTry() time.Duration {
	wait := time.Second
	for _, v := range rep.Verdicts {
		if v.For(policy.ReasonCannotMove) && wait < lookSoon {
			wait *= 2
		}
	}
	return min(wait, lookSoon)
}

// untilPurge is when to look at a held entry that is purged after left. One that was due
// in this pass already and was left alone (in use, mode observe) is not asked at once again.
func (rep *Report) untilPurge(entry string, left time.Duration) time.Duration {
	due := slices.ContainsFunc(rep.Look.Parked, func(e policy.Evidence) bool { return e.Entry == entry })
	acted := slices.ContainsFunc(rep.Outcomes, func(o policy.Outcome) bool { return o.Action.Entry == entry })
	if left <= 0 && due && !acted {
		return lookAgain
	}
	return max(left, time.Second)
}

// confirming: a parked pod waits for its confirm time, or a cleared one for its kubelet, and
// others for it.
func (rep *Report) confirming() bool {
	return rep.finishing || slices.ContainsFunc(rep.Entries, func(e policy.EntryState) bool { return e.Phase == policy.PhaseParked })
}

// justParked: with no confirm time the pod can be confirmed by a look right now.
func (rep *Report) justParked(entry string) bool {
	return slices.ContainsFunc(rep.Outcomes, func(o policy.Outcome) bool {
		return o.Action.Entry == entry && o.Action.Kind == policy.Park && o.Result == policy.Done
	})
}

// stripped: the pass has taken a confirmed pod.
func (rep *Report) stripped() bool {
	return slices.ContainsFunc(rep.Outcomes, func(o policy.Outcome) bool {
		return o.Action.Kind == policy.Strip && (o.Result == policy.Done || o.Result == policy.Partly)
	})
}

// progressed: the first pod after a start has been confirmed, and others wait for that.
func (rep *Report) progressed() bool {
	return rep.stripped() && slices.ContainsFunc(rep.Verdicts, func(v policy.Verdict) bool { return v.For(policy.ReasonLimit) })
}
