package policy

import (
	"fmt"
	"time"
)

// Settle is what JudgeParked says of a pod that was moved aside.
type Settle string

// SettleWait: look again later. SettlePutBack: move it back to the pods directory.
// SettleStrip: nothing showed a sign of life; what holds no data may go.
const (
	SettleWait    Settle = "wait"
	SettlePutBack Settle = "put-back"
	SettleStrip   Settle = "strip"
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
// judgement that it was not wanted before may have been right all the same. Should the
// judgement have been wrong, the directory made again, the cgroup and the sandbox say so.
var parkedRules = [...]struct {
	fact     FactName
	alive    Reason
	unknown  Reason
	settle   Settle
	breaker  bool
	waivable bool
}{
	// fact, reason if alive, reason if unknown, then, opens the breaker, waivable
	{FactRemade, ReasonRemade, ReasonRemade, SettlePutBack, true, false},
	{FactMounted, ReasonMounted, ReasonMountsUnknown, SettlePutBack, true, false},
	{FactSandbox, ReasonSandbox, ReasonRuntimeUnknown, SettlePutBack, true, true},
	{FactContainer, ReasonContainer, ReasonRuntimeUnknown, SettlePutBack, true, true},
	{FactCgroup, ReasonCgroup, ReasonCgroupUnknown, SettlePutBack, true, false},
	{FactKubeletFile, ReasonKubeletFile, ReasonKubeletFile, SettlePutBack, true, true},
	{FactKubeletLists, ReasonKubeletLists, ReasonKubeletLists, SettlePutBack, true, true},
	{FactAPILists, ReasonAPILists, ReasonAPIUnknown, SettlePutBack, true, true},
	{FactStaticPod, ReasonStaticPod, ReasonStaticPod, SettlePutBack, false, true},
	{FactStaged, ReasonStaged, ReasonStaged, SettlePutBack, false, false},
	{FactInUse, ReasonInUse, ReasonInUse, SettleWait, false, false},
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

// turn adds a reason; putting back is stronger than waiting, waiting than taking.
func (v *ParkedVerdict) turn(s Settle, reason Reason, detail string) {
	if v.Settle != SettlePutBack {
		v.Settle = s
	}
	v.Why = addWhy(v.Why, reason, detail)
}
