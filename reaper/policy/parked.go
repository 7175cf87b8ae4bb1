package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Parked is what the ledger records of a parked pod.
type Parked struct {
	At      Instant   // when it was parked
	Begun   Instant   // when that was written down, before it was; zero where the ledger does not have it
	Kubelet KubeletID // the kubelet that ran then; zero under Rules.Waive
}

// JudgeParked returns the verdict on a parked pod. A living pod's kubelet makes its directory again within three minutes
// (measured on 1.30: 25 s, with volumes 165 s). So the confirm time must pass under one kubelet: one that has restarted
// may still wait for its sources, and the pod is put back.
func JudgeParked(e Evidence, n Node, p Parked, r Rules, now Instant) Verdict {
	v := Verdict{Stage: InQuarantine, Decision: Reap}
	for _, rule := range rules {
		if rule.parked != "" && v.read(rule, &e, rule.parked, !r.silent(rule)) {
			v.Alive = v.Alive || rule.has(breaks)
		}
	}
	if !r.Waive {
		v.sameKubelet(n, p)
	}
	const booted = "the machine has booted since the pod was parked"
	switch since, ok := now.Since(p.At); {
	case !ok && r.Waive: // only the clock could confirm, and it has started again
		v.keep(Return, ReasonConfirm, booted)
	case !ok:
		v.keep(Wait, ReasonConfirm, booted)
	case since < r.Confirm:
		v.keep(Wait, ReasonConfirm, fmt.Sprintf("parked %s ago, a sign of life may come for %s", since.Round(time.Second), r.Confirm))
	}
	v.again(e, p, r, now) // last: nothing puts a pod back where that may be used
	return v
}

// read reads one fact about an entry: alive is the decision where the pod shows life, and it waits where the fact is
// Unknown, if that counts. It reports whether the pod shows life.
func (v *Verdict) read(rule rule, e *Evidence, alive Decision, doubt bool) bool {
	f := e.Facts[rule.fact]
	switch {
	case f.Truth == Yes:
		v.keep(alive, rule.alive, f.Detail)
	case f.Truth == Unknown && doubt:
		v.keep(Wait, rule.unknown, unknownDetail(rule.fact, f))
	}
	return f.Truth == Yes
}

func (v *Verdict) sameKubelet(n Node, p Parked) {
	switch {
	case n.Kubelet.Truth != Yes:
		v.keep(Wait, ReasonKubeletUnknown, "no kubelet runs that could make the directory again")
	case n.KubeletID != p.Kubelet:
		v.keep(Return, ReasonKubeletStarting, "the kubelet has restarted since the pod was parked")
	}
}

// Below these shares of free space or inodes the retention of ephemeral data shrinks to pressedRetention. The kubelet
// evicts living pods at nodefs.available<10% and nodefs.inodesFree<5%.
const (
	pressedBytes     = 0.15
	pressedInodes    = 0.08
	pressedRetention = 10 * time.Minute
)

// Pressed reports whether the file system nears the kubelet's eviction thresholds.
func (n Node) Pressed() bool {
	return (n.FreeBytes >= 0 && n.FreeBytes < pressedBytes) || (n.FreeInodes >= 0 && n.FreeInodes < pressedInodes)
}

// Due reports whether a quarantine entry waits for something that only a look can decide:
// it is parked, or half removed, or holds ephemeral data past its retention.
func Due(e EntryState, r Rules, now Instant, pressed bool) bool {
	left, ephemeral := PurgeIn(e, r, now, pressed)
	return e.Phase.due() || ephemeral && left <= 0
}

// PurgeIn returns how long the ephemeral data of a confirmed entry still stays, and false where it
// holds none.
func PurgeIn(e EntryState, r Rules, now Instant, pressed bool) (time.Duration, bool) {
	ephemeral := false
	for _, l := range e.Left {
		ephemeral = ephemeral || l.Class == contents.ClassEphemeral
	}
	if !ephemeral || e.Phase != PhaseConfirmed {
		return 0, false
	}
	retention := r.Retention
	if pressed {
		retention = min(retention, pressedRetention)
	}
	return retention - now.Age(e.ConfirmedAt), true
}

// JudgeEntry returns what becomes of one quarantine entry that is due, and the action for
// it, nil where there is none.
func JudgeEntry(e Evidence, n Node, s EntryState, r Rules, now Instant) (Verdict, *Action) {
	v, todo := judgeEntry(e, n, s, r, now)
	v.Stage = InQuarantine
	if todo == nil {
		return v, nil
	}
	a := s.Action(todo.Kind)
	a.Take, a.By, a.Evidence, a.Why = todo.Take, todo.By, &e, v.Why
	return v, &a
}

func judgeEntry(e Evidence, n Node, s EntryState, r Rules, now Instant) (Verdict, *Action) {
	switch f := e.Facts[FactDirectory]; f.Truth {
	case Yes:
	case No:
		// It was moved away: the action finds nothing, and the ledger records that it is gone. If it is there after
		// all, nothing of it is removed.
		if s.Phase == PhaseParked {
			return notThere(Return, nil, e, s, now), &Action{Kind: PutBack}
		}
		return notThere(Reap, nil, e, s, now), &Action{Kind: Strip, Take: contents.TakeNone}
	case Unknown:
		return notThere(Wait, []Why{{ReasonContentUnknown, unknownDetail(FactDirectory, f)}}, e, s, now), nil
	}
	if s.Phase != PhaseParked {
		return goOn(e, n, s, r, now)
	}
	if e.ID != s.ID {
		other := Why{ReasonCannotMove, "it is another directory than the one that was judged"}
		return notThere(Return, []Why{other}, e, s, now), &Action{Kind: PutBack}
	}
	v := JudgeParked(e, n, s.Parked, r, now)
	switch v.Decision {
	case Reap:
		return v, &Action{Kind: Strip, Take: contents.TakeStrip}
	case Return:
		return v, &Action{Kind: PutBack}
	case Wait, Keep:
	}
	return v, nil
}

// notThere returns the verdict on an entry whose directory is gone, unknown or another one, whatever its pod is. A sign of
// life opens the breaker all the same, but not a pods/UID, which may be the directory itself.
func notThere(d Decision, why []Why, e Evidence, s EntryState, now Instant) Verdict {
	v := Verdict{Decision: d, Why: why}
	for _, rule := range rules {
		if f := e.Facts[rule.fact]; f.Truth == Yes && rule.has(sign) && rule.has(breaks) && rule.fact != FactRemade {
			v.Alive, v.Why = true, addWhy(v.Why, rule.alive, f.Detail)
		}
	}
	v.Alive = v.Alive && !returned(e, s.Parked, now)
	return v
}

// goOn continues what was begun, or purges what is due, once nothing is mounted or in use there and the pod shows no
// sign of life. An entry whose strip was begun, or has ended, is never put back, whether its pod has a directory or not: it is
// half cleared, and an old kubelet that finds such a directory deletes through its binds. It waits for an operator.
func goOn(e Evidence, n Node, s EntryState, r Rules, now Instant) (Verdict, *Action) {
	v := Lives(e, n, s, r, now)
	v.read(ruleOf(FactMounted), &e, Wait, true)
	v.read(ruleOf(FactInUse), &e, Wait, true)
	switch {
	case v.Decision != Reap:
		return v, nil
	case s.Phase == PhaseStripping:
		return v, &Action{Kind: Strip, Take: contents.TakeStrip, By: KnownUser(s.By)}
	case s.Phase == PhasePurging && s.TakeAll && len(s.Failed) > 0: // the operator has seen the error, and no user data is removed later
		return v, &Action{Kind: Purge, Take: contents.TakeStrip, By: KnownUser(s.By)}
	case s.Phase == PhasePurging && s.TakeAll: // an operator asked for it, and it was cut short
		return v, &Action{Kind: Purge, Take: contents.TakeAll, By: KnownUser(s.By)}
	case s.Phase == PhasePurging:
		return v, &Action{Kind: Purge, Take: contents.TakeAged, By: KnownUser(s.By)}
	}
	return v, &Action{Kind: Purge, Take: contents.TakeAged} // begun now, and so by who asks now
}

// Unproven reports whether a parked pod holds up the others, since it is not yet proved dead. A pod that waits for a process
// to close a file does not, nor does a static pod that is back, nor one without a name beside a manifest: its kubelet would
// have made its directory again.
func (v Verdict) Unproven() bool {
	if v.Decision != Wait || v.Back {
		return false
	}
	for _, w := range v.Why {
		if w.Reason != ReasonInUse && w.Reason != ReasonStaticPod {
			return true
		}
	}
	return false
}

// OnlyWaits reports whether what lies in quarantine waits for nothing but what ends by itself: a time, or a process that
// closes a file.
func (v *Verdict) OnlyWaits() bool {
	ends := func(w Why) bool { return w.Reason == ReasonConfirm || w.Reason == ReasonInUse || w.Reason.Passing() }
	return len(v.Why) > 0 && !slices.ContainsFunc(v.Why, func(w Why) bool { return !ends(w) })
}

// OnlyConfirms reports whether the pod waits for nothing but the end of its confirm time.
func (v Verdict) OnlyConfirms() bool {
	return v.Decision == Wait && len(v.Why) == 1 && v.Why[0].Reason == ReasonConfirm
}
