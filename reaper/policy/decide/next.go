package decide

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// How soon to look again where only a look can show whether something changed.
const (
	lookSoon   = 30 * time.Second // a parked pod waits for an answer
	lookAgain  = 5 * time.Minute  // an orphan is kept
	lookRarely = time.Hour        // nothing is known to be left
)

// schedule gathers when to look again.
type schedule struct {
	*Ruling
	outs    []policy.Outcome
	next    time.Duration
	pending bool
}

func (s *schedule) soon(d time.Duration, waiting bool) {
	s.next = min(s.next, max(0, d))
	s.pending = s.pending || waiting
}

// Next returns after how long to look again if nothing asks for a look before, and whether that can take a pod further.
// outs are how the plan's actions ended, entries what is in quarantine now.
func (d *Ruling) Next(outs []policy.Outcome, entries []policy.EntryState, r policy.Rules, now policy.Instant) (time.Duration, bool) {
	s := &schedule{Ruling: d, outs: outs, next: lookRarely}
	for p := range policy.At(d.Pods, policy.InPlace, policy.InRuntime) {
		s.pod(p, r)
	}
	for i := range entries {
		s.entry(&entries[i], r, now)
	}
	if s.ended(func(o policy.Outcome) bool {
		return o.Action.Kind == policy.PutBack && len(o.Action.Why) > 0 && o.Action.Why[0].Reason == policy.ReasonMountsUnknown
	}) {
		s.soon(lookSoon, true) // the scan after parking could not be made: nothing speaks against the pod
	}
	if s.ended(func(o policy.Outcome) bool { return o.Withdrawn }) {
		s.soon(lookSoon, true)
	}
	if _, _, left := d.Memory.Messages.Due(r, now); left > 0 {
		s.soon(left, false) // the kubelet's message about a pod may have stopped
	}
	return s.next, s.pending
}

// Unfinished counts the entries with which something was begun that this pass could not end, other than those that wait for
// what ends by itself. An entry that this pass has not judged and that is no intent was moved there by it.
func (d *Ruling) Unfinished(entries []policy.EntryState, r policy.Rules) (n int) {
	if r.Observe { // it changes nothing
		return 0
	}
	waits := map[string]bool{}
	for p := range policy.At(d.Pods, policy.InQuarantine) {
		waits[p.Entry] = p.OnlyWaits()
	}
	for i := range entries {
		e := &entries[i]
		only, judged := waits[e.Entry]
		if e.Phase.Intent() && !only || e.Phase.Unfinished() && judged && !only {
			n++
		}
	}
	return n
}

// pod returns when time alone could change the verdict on a pod.
func (s *schedule) pod(p *policy.Judged, r policy.Rules) {
	if p.Again > 0 {
		s.soon(p.Again, false)
	}
	switch {
	case p.UID == "" || p.Living() || p.OnlyUnreported(): // the kubelet's report wakes the one that waits for it
	case p.Decision == policy.Wait && p.Due > 0:
		// Longer than any rule waits: a time stamp of a clock that was set back since.
		s.soon(p.Due, p.Due <= r.Hold)
	case p.Decision == policy.Wait && p.For(policy.ReasonLimit):
		s.soon(s.nextTry(), true)
	case p.Decision == policy.Wait:
		s.soon(lookSoon, false)
	case p.Decision != policy.Reap:
		s.soon(lookAgain, false)
	}
}

// entry returns when a look could take an entry of the quarantine further.
func (s *schedule) entry(e *policy.EntryState, r policy.Rules, now policy.Instant) {
	switch {
	case e.Phase == policy.PhaseParked:
		since, ok := now.Since(e.Parked.At)
		switch {
		case r.Observe: // it stays where it is
			s.soon(lookAgain, false)
		case ok && since < r.Confirm:
			s.soon(r.Confirm-since, true)
		case ok && since-(now.Boot-s.Look.At.Boot) < r.Confirm: // it was parked, or its confirm time ended, since the look
			s.soon(0, true)
		default: // something keeps it parked, and may do so forever
			s.soon(lookSoon, false)
		}
	case e.Phase == policy.PhaseConfirmed:
		if left, ok := policy.PurgeIn(*e, r, now, s.Look.Node.Pressed()); ok {
			s.soon(s.untilPurge(e.Entry, left), false)
		}
	case e.Phase == policy.PhasePutting && s.Memory.Tried(e.Entry): // a living pod may miss it
		s.soon(max(time.Second, s.Memory.stuck[e.Entry].next-now.Boot), false)
	case e.Phase.Intent():
		s.soon(lookAgain, false)
	}
}

func (s *schedule) ended(as func(policy.Outcome) bool) bool { return slices.ContainsFunc(s.outs, as) }

// nextTry is when to move more pods after a look whose limit was reached: the later the more of them could not be moved,
// since then the cause is not the pod's.
func (s *schedule) nextTry() time.Duration {
	wait := time.Second
	for p := range policy.At(s.Pods, policy.InPlace) {
		if p.For(policy.ReasonCannotMove) && wait < lookSoon {
			wait *= 2
		}
	}
	return min(wait, lookSoon)
}

// untilPurge is when to look at a confirmed entry that is purged after left. One that was due in this pass and was not
// purged (in use, mode observe) is not inspected at once again.
func (s *schedule) untilPurge(entry string, left time.Duration) time.Duration {
	if left > 0 {
		return max(left, time.Second)
	}
	for p := range policy.At(s.Pods, policy.InQuarantine) {
		if p.Entry == entry && !s.ended(func(o policy.Outcome) bool { return o.Action.Entry == entry }) {
			return lookAgain
		}
	}
	return time.Second
}

// Stripped reports whether a confirmed pod was stripped.
func Stripped(outs []policy.Outcome) bool {
	return slices.ContainsFunc(outs, func(o policy.Outcome) bool {
		return o.Action.Kind == policy.Strip && (o.Result == policy.Done || o.Result == policy.Partly)
	})
}
