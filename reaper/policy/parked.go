package policy

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
)

// ParkedDecision is what JudgeParked says of a pod that was moved aside.
type ParkedDecision string

// ParkedWait: look again later. ParkedPutBack: move it back to the pods directory.
// ParkedStrip: nothing showed a sign of life; what holds no data may go. ParkedConflict: the
// pod lives again beside what lies in quarantine, which stays there until a person acts.
const (
	ParkedWait     ParkedDecision = "wait"
	ParkedPutBack  ParkedDecision = "put-back"
	ParkedStrip    ParkedDecision = "strip"
	ParkedConflict ParkedDecision = "conflict"
)

// Parked is what the ledger knows of a pod that was moved aside.
type Parked struct {
	At      Instant   // when it was parked
	Begun   Instant   // when that was written down, before it was; zero where the ledger does not have it
	Kubelet KubeletID // the kubelet that ran then; zero under Rules.Waive
}

// ParkedVerdict is JudgeParked's word.
type ParkedVerdict struct {
	Decision ParkedDecision
	// Alive is true where something showed that the pod lives: a judgement was wrong, and
	// the breaker must open.
	Alive bool
	// Back is true where a static pod is back, although the judgement that it was dead was right.
	Back bool
	Why  []Why
}

// parkedRules: a fact that turned to alive while the pod was parked. Some of them put the
// pod back without saying that it lives: a static pod's manifest that came back while its
// directory was parked says that the pod is wanted again under the same UID, and the
// judgement that it was not wanted before was right all the same: see returned.
//
// life says that the fact is a sign of life for as long as anything of the pod lies in
// quarantine, and doubt that its Unknown keeps what was confirmed dead. A mount puts a pod back
// while it waits for its confirm time, and an open file makes it wait. Once it is confirmed both only
// make it wait: a person may look into the quarantine.
var parkedRules = [...]struct {
	fact     FactName
	alive    Reason
	unknown  Reason
	decision ParkedDecision
	breaker  bool
	waivable bool
	life     bool
	doubt    bool
}{
	// fact, reason if alive, reason if unknown, then, opens the breaker, waivable, life, doubt
	{FactRemade, ReasonRemade, ReasonRemade, ParkedPutBack, true, false, true, true},
	{FactMounted, ReasonMounted, ReasonMountsUnknown, ParkedPutBack, true, false, false, false},
	{FactSandbox, ReasonSandbox, ReasonRuntimeUnknown, ParkedPutBack, true, true, true, true},
	{FactContainer, ReasonContainer, ReasonRuntimeUnknown, ParkedPutBack, true, true, true, true},
	{FactCgroup, ReasonCgroup, ReasonCgroupUnknown, ParkedPutBack, true, false, true, true},
	{FactKubeletFile, ReasonKubeletFile, ReasonKubeletFile, ParkedPutBack, true, true, true, false},
	{FactKubeletLists, ReasonKubeletLists, ReasonKubeletLists, ParkedPutBack, true, true, true, false},
	{FactAPILists, ReasonAPILists, ReasonAPIUnknown, ParkedPutBack, true, true, true, false},
	{FactStaticPod, ReasonStaticPod, ReasonStaticPod, ParkedPutBack, false, true, true, false},
	{FactStaged, ReasonStaged, ReasonStaged, ParkedPutBack, false, false, false, false},
	{FactInUse, ReasonInUse, ReasonInUse, ParkedWait, false, false, false, false},
}

// JudgeParked says what becomes of a parked pod. A living pod's kubelet makes its
// directory again within 90 s (measured on 1.30: 25 s), one that waits for volumes within
// three minutes (165 s), so the confirm time must pass under one kubelet: one that has
// restarted since may still wait for its sources, and then a missing directory proves
// nothing and the pod is put back.
func JudgeParked(e Evidence, n Node, p Parked, r Rules, now Instant) ParkedVerdict {
	v := ParkedVerdict{Decision: ParkedStrip}
	for _, rule := range parkedRules {
		switch f := e.Facts[rule.fact]; {
		case f.Truth == No:
		case f.Truth == Yes:
			v.turn(rule.decision, rule.alive, f.Detail)
			v.Alive = v.Alive || rule.breaker
		case r.onlyYesCounts(rule.fact), rule.waivable && r.Waive:
		default:
			v.turn(ParkedWait, rule.unknown, unknownDetail(rule.fact, f))
		}
	}
	if !r.Waive {
		v.sameKubelet(n, p)
	}
	v.networkConfirms(e, n, r, now)
	const booted = "the machine has booted since the pod was parked"
	switch since, ok := now.Since(p.At); {
	case !ok && r.Waive: // nobody but the clock could confirm, and the clock has started anew
		v.turn(ParkedPutBack, ReasonConfirm, booted)
	case !ok:
		v.turn(ParkedWait, ReasonConfirm, booted)
	case since < r.Confirm:
		v.turn(ParkedWait, ReasonConfirm, fmt.Sprintf("parked %s ago, a sign of life may come for %s", since.Round(time.Second), r.Confirm))
	}
	v.again(e, p, r, now) // last: nothing puts a pod back where that may be used
	return v
}

// Stop makes a pod wait that would be stripped, since the breaker is open.
func (v *ParkedVerdict) Stop() {
	if v.Decision == ParkedStrip {
		v.turn(ParkedWait, ReasonBreaker, breakerOpen)
	}
}

func (v *ParkedVerdict) sameKubelet(n Node, p Parked) {
	switch {
	case n.Kubelet.Truth != Yes:
		v.turn(ParkedWait, ReasonKubeletUnknown, "no kubelet runs that could make the directory again")
	case n.KubeletID != p.Kubelet:
		v.turn(ParkedPutBack, ReasonKubeletStarting, "the kubelet has restarted since the pod was parked")
	}
}

// turn adds a reason; a conflict is stronger than putting back, that than waiting, and
// waiting than taking.
func (v *ParkedVerdict) turn(s ParkedDecision, reason Reason, detail string) {
	if v.Decision != ParkedConflict && (v.Decision != ParkedPutBack || s == ParkedConflict) {
		v.Decision = s
	}
	v.Why = addWhy(v.Why, reason, detail)
}

// Below these shares of free space or inodes the retention of ephemeral data shrinks to
// pressedRetention: the kubelet evicts living pods at nodefs.available<10% and
// nodefs.inodesFree<5% (its default thresholds), and dead ones must go first.
const (
	pressedBytes     = 0.15
	pressedInodes    = 0.08
	pressedRetention = 10 * time.Minute
)

// Pressed says whether the file system nears the kubelet's eviction thresholds.
func (n Node) Pressed() bool {
	return (n.FreeBytes >= 0 && n.FreeBytes < pressedBytes) || (n.FreeInodes >= 0 && n.FreeInodes < pressedInodes)
}

// Due says whether a quarantine entry waits for something that only a look can decide:
// it is parked, or half removed, or holds ephemeral data past its retention.
func Due(e EntryState, r Rules, now Instant, pressed bool) bool {
	left, ephemeral := PurgeIn(e, r, now, pressed)
	return stageOf(e.Phase).due || ephemeral && left <= 0
}

// PurgeIn says how long the ephemeral data of a confirmed entry still stays, and false where it
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
	since, ok := now.Since(e.ConfirmedAt)
	if !ok {
		// Another boot: only the wall clock knows, and one that was set knows nothing. A machine
		// without a battery clock boots into its past and then leaps over years. It has been held
		// for all of this boot, and that much is certain.
		since = min(max(0, now.Wall.Sub(e.ConfirmedAt.Wall)), now.Boot)
	}
	return retention - since, true
}

// JudgeEntry says what becomes of one quarantine entry that is due, and the action for
// it, nil where there is none. It sets the pod's name in e where the look found none.
func JudgeEntry(e *Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	if e.Namespace == "" && e.PodName == "" {
		e.Namespace, e.PodName = s.Namespace, s.PodName
	}
	v, action := judgeEntry(*e, n, s, r, now)
	if action == nil || n.MayEnforce.Truth != Yes {
		return v, nil
	}
	if n.Agrees.Truth != Yes && action.Kind != PutBack {
		v.turn(ParkedWait, ReasonContradiction, n.Agrees.Detail)
		return v, nil
	}
	action.UID, action.Entry, action.ID, action.Leaf, action.Evidence, action.Why = s.UID, s.Entry, s.ID, s.Leaf, e, v.Why
	action.Parked = s.Parked.At
	return v, action
}

func judgeEntry(e Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	switch f := e.Facts[FactDirectory]; f.Truth {
	case Yes:
	case No:
		// Somebody moved it away: the action finds nothing and the ledger learns that it is
		// gone. Should it be there after all, nothing is removed of what this look has not seen.
		if s.Phase == PhaseParked {
			return ParkedVerdict{Decision: ParkedPutBack}, &Action{Kind: PutBack}
		}
		return ParkedVerdict{Decision: ParkedStrip}, &Action{Kind: Strip, Take: contents.TakeNone}
	case Unknown:
		return ParkedVerdict{Decision: ParkedWait, Why: []Why{{ReasonContentUnknown, unknownDetail(FactDirectory, f)}}}, nil
	}
	if s.Phase != PhaseParked {
		return finish(e, n, s, r, now)
	}
	if e.ID != s.ID {
		return ParkedVerdict{Decision: ParkedPutBack, Why: []Why{{ReasonCannotMove, "it is another directory than the one that was judged"}}},
			&Action{Kind: PutBack}
	}
	v := JudgeParked(e, n, s.Parked, r, now)
	switch v.Decision {
	case ParkedStrip:
		return v, &Action{Kind: Strip, Take: contents.TakeStrip}
	case ParkedPutBack:
		return v, &Action{Kind: PutBack}
	case ParkedWait, ParkedConflict:
	}
	return v, nil
}

// finish goes on with what was begun, or purges what is due, once nothing is mounted or in use there and the pod shows no sign of life:
// a strip that was cut short may be days old, and a static pod comes again with its UID. An entry whose strip was begun is never put back,
// also where nothing was removed yet: nobody knows how much is gone, and an old kubelet that finds a half-cleared directory deletes through
// its binds. It waits for a person.
func finish(e Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	v := Lives(e, n, s, r, now)
	for _, rule := range parkedRules {
		if rule.fact != FactMounted && rule.fact != FactInUse {
			continue
		}
		switch f := e.Facts[rule.fact]; f.Truth {
		case No:
		case Yes:
			v.turn(ParkedWait, rule.alive, f.Detail)
		case Unknown:
			v.turn(ParkedWait, rule.unknown, unknownDetail(rule.fact, f))
		}
	}
	switch {
	case v.Decision != ParkedStrip:
		return v, nil
	case s.Phase == PhaseStripping:
		return v, &Action{Kind: Strip, Take: contents.TakeStrip, By: who.Known(s.By)}
	case s.Phase == PhasePurging && s.TakeAll: // a person asked for it, and it was cut short
		return v, &Action{Kind: Purge, Take: contents.TakeAll, By: who.Known(s.By)}
	case s.Phase == PhasePurging:
		return v, &Action{Kind: Purge, Take: contents.TakeAged, By: who.Known(s.By)}
	}
	return v, &Action{Kind: Purge, Take: contents.TakeAged} // begun now, and so by who asks now
}

// Unproven says whether a parked pod still has to prove dead: one that waits only for a process to let go of a file does not hold up the others, and neither does a static pod that is back and waits.
func (v ParkedVerdict) Unproven() bool {
	if v.Decision != ParkedWait || v.Back {
		return false
	}
	for _, w := range v.Why {
		if w.Reason != ReasonInUse {
			return true
		}
	}
	return false
}

// OnlyConfirms reports whether the pod waits for nothing but the end of its confirm time.
func (v ParkedVerdict) OnlyConfirms() bool {
	return v.Decision == ParkedWait && len(v.Why) == 1 && v.Why[0].Reason == ReasonConfirm
}
