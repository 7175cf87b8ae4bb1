package policy

import (
	"fmt"
	"time"
)

// Settle is what JudgeParked says of a pod that was moved aside.
type Settle string

// SettleWait: look again later. SettlePutBack: move it back to the pods directory.
// SettleStrip: nothing showed a sign of life; what holds no data may go. SettleConflict: the
// pod lives again beside what lies in quarantine, which stays there until a person acts.
const (
	SettleWait     Settle = "wait"
	SettlePutBack  Settle = "put-back"
	SettleStrip    Settle = "strip"
	SettleConflict Settle = "conflict"
)

// Parked is what the ledger knows of a pod that was moved aside.
type Parked struct {
	At      Instant   // when it was parked
	Kubelet KubeletID // the kubelet that ran then; zero under Rules.Waive
}

// ParkedVerdict is JudgeParked's word.
type ParkedVerdict struct {
	Settle Settle
	// Alive is true where something showed that the pod lives: a judgement was wrong, and
	// the breaker must open.
	Alive bool
	Why   []Why
}

// parkedRules: a fact that turned to alive while the pod was parked. Some of them put the
// pod back without saying that it lives: a static pod's manifest that came back while its
// directory was parked says that the pod is wanted again under the same UID, and the
// judgement that it was not wanted before was right all the same: see returned.
//
// life says that the fact is a sign of life for as long as anything of the pod lies in
// quarantine, and doubt that its Unknown keeps what was confirmed dead. A mount and an open
// file are no such sign: a person may look into the quarantine. They only wait.
var parkedRules = [...]struct {
	fact     FactName
	alive    Reason
	unknown  Reason
	settle   Settle
	breaker  bool
	waivable bool
	life     bool
	doubt    bool
}{
	// fact, reason if alive, reason if unknown, then, opens the breaker, waivable, life, doubt
	{FactRemade, ReasonRemade, ReasonRemade, SettlePutBack, true, false, true, true},
	{FactMounted, ReasonMounted, ReasonMountsUnknown, SettlePutBack, true, false, false, false},
	{FactSandbox, ReasonSandbox, ReasonRuntimeUnknown, SettlePutBack, true, true, true, true},
	{FactContainer, ReasonContainer, ReasonRuntimeUnknown, SettlePutBack, true, true, true, true},
	{FactCgroup, ReasonCgroup, ReasonCgroupUnknown, SettlePutBack, true, false, true, true},
	{FactKubeletFile, ReasonKubeletFile, ReasonKubeletFile, SettlePutBack, true, true, true, false},
	{FactKubeletLists, ReasonKubeletLists, ReasonKubeletLists, SettlePutBack, true, true, true, false},
	{FactAPILists, ReasonAPILists, ReasonAPIUnknown, SettlePutBack, true, true, true, false},
	{FactStaticPod, ReasonStaticPod, ReasonStaticPod, SettlePutBack, false, true, true, false},
	{FactStaged, ReasonStaged, ReasonStaged, SettlePutBack, false, false, false, false},
	{FactInUse, ReasonInUse, ReasonInUse, SettleWait, false, false, false, false},
}

// JudgeParked says what becomes of a parked pod. A living pod's kubelet makes its
// directory again within 90 s (measured on 1.30: 25 s), one that waits for volumes within
// three minutes (165 s), so the confirm time must pass under one kubelet: one that has
// restarted since may still wait for its sources, and then a missing directory proves
// nothing and the pod is put back.
func JudgeParked(e Evidence, n Node, p Parked, r Rules, now Instant) ParkedVerdict {
	v := ParkedVerdict{Settle: SettleStrip}
	for _, rule := range parkedRules {
		switch f := e.Facts[rule.fact]; {
		case f.Truth == No:
		case f.Truth == Yes:
			v.turn(rule.settle, rule.alive, f.Detail)
			v.Alive = v.Alive || rule.breaker
		case r.silent(rule.fact), rule.waivable && r.Waive:
		default:
			v.turn(SettleWait, rule.unknown, unknownDetail(rule.fact, f))
		}
	}
	if !r.Waive {
		v.sameKubelet(n, p)
	}
	v.networkConfirms(e, n, r, now)
	v.again(e, p, r, now)
	const booted = "the machine has booted since the pod was parked"
	switch since, ok := now.Since(p.At); {
	case !ok && r.Waive: // nobody but the clock could confirm, and the clock has started anew
		v.turn(SettlePutBack, ReasonConfirm, booted)
	case !ok:
		v.turn(SettleWait, ReasonConfirm, booted)
	case since < r.Confirm:
		v.turn(SettleWait, ReasonConfirm, fmt.Sprintf("parked %s ago, a sign of life may come for %s", since.Round(time.Second), r.Confirm))
	}
	return v
}

// Stop makes a pod wait that would be stripped, since the breaker is open.
func (v *ParkedVerdict) Stop() {
	if v.Settle == SettleStrip {
		v.turn(SettleWait, ReasonBreaker, breakerOpen)
	}
}

func (v *ParkedVerdict) sameKubelet(n Node, p Parked) {
	switch {
	case n.Kubelet.Truth != Yes:
		v.turn(SettleWait, ReasonKubeletUnknown, "no kubelet runs that could make the directory again")
	case n.KubeletID != p.Kubelet:
		v.turn(SettlePutBack, ReasonKubeletStarting, "the kubelet has restarted since the pod was parked")
	}
}

// turn adds a reason; a conflict is stronger than putting back, that than waiting, and
// waiting than taking.
func (v *ParkedVerdict) turn(s Settle, reason Reason, detail string) {
	if v.Settle != SettleConflict && (v.Settle != SettlePutBack || s == SettleConflict) {
		v.Settle = s
	}
	v.Why = addWhy(v.Why, reason, detail)
}
