package policy

import "slices"

// rule names the one truth of a fact that lets a pod go, and the reasons that keep it
// otherwise. A waivable rule is left out under Rules.Waive unless the fact says alive.
type rule struct {
	fact     FactName
	dead     Truth
	alive    Reason
	unknown  Reason
	decision Decision
	waivable bool
	// shared is true where an unknown tells of the node and not of this pod.
	shared bool
}

// rules is the table of evidence of docs/how-it-decides.md. What the kubelet's word and its
// silence prove (named, swept, released, pod_logs, pod_resources) is judged together by
// judgement.kubelet, time by judgement.weigh.
var rules = [...]rule{
	// fact, the truth that lets go, reason if the other, reason if unknown, then, waivable, shared
	{FactDirectory, Yes, ReasonNotADirectory, ReasonNotADirectory, Keep, false, false},
	{FactOwnMount, No, ReasonOwnMount, ReasonMountsUnknown, Keep, false, false},
	{FactMounted, No, ReasonMounted, ReasonMountsUnknown, Keep, false, true},
	{FactSandbox, No, ReasonSandbox, ReasonRuntimeUnknown, Keep, true, true},
	{FactContainer, No, ReasonContainer, ReasonRuntimeUnknown, Keep, true, true},
	{FactCgroup, No, ReasonCgroup, ReasonCgroupUnknown, Keep, false, true},
	{FactHeld, No, ReasonKubeletHolds, ReasonKubeletUnknown, Keep, true, false},
	{FactKubeletFile, No, ReasonKubeletFile, ReasonKubeletFile, Keep, true, true},
	{FactKubeletLists, No, ReasonKubeletLists, ReasonKubeletLists, Keep, true, true},
	{FactAPILists, No, ReasonAPILists, ReasonAPIUnknown, Keep, true, true},
	{FactStaticPod, No, ReasonStaticPod, ReasonStaticPod, Keep, true, true},
	{FactStaged, No, ReasonStaged, ReasonStaged, Keep, false, true},
	{FactInUse, No, ReasonInUse, ReasonInUse, Wait, false, true},
	{FactRestored, No, ReasonRestored, ReasonRestored, Keep, false, false},
	{FactContent, Yes, ReasonContentUnknown, ReasonContentUnknown, Keep, false, false},
}

// inRuntime says whether the rule is about what the runtime has. These are applied last:
// they are judged otherwise where nothing else speaks for the pod.
func (r rule) inRuntime() bool { return r.fact == FactSandbox || r.fact == FactContainer }

// ofDirectory says whether the rule is about the pod directory itself.
func (r rule) ofDirectory() bool {
	return r.fact == FactDirectory || r.fact == FactOwnMount || r.fact == FactContent
}

// ofContent says whether the rule is about what was read in the directory. A pod that was passed
// over is kept for what shows that it lives, and not for that.
func (r rule) ofContent() bool { return r.fact == FactContent || r.fact == FactStaged }

// silent says whether the silence of a source is no doubt about the others: most nodes do
// not have it, and only a yes of it counts. This is the one place where Unknown does not
// keep, and such a fact must never be the ground for letting a pod go. An API server that
// was named keeps by its silence, unless the operator chose otherwise.
func (r Rules) silent(n FactName) bool {
	return n == FactKubeletLists || n == FactPodResources || n == FactAPILists && !r.NeedAPI
}

func unknownDetail(n FactName, f Fact) string {
	if f.Detail != "" {
		return f.Detail
	}
	return n.String() + " is not known"
}

// unless is what would have to be otherwise for an objection to be none. An objection that has
// nothing of these stands, whatever else changes.
type unless uint8

const (
	unlessDoubt   unless = 1 << iota // a doubt that is about the node, if it went against the pod: see hold.go
	unlessCleared                    // the volume manager lets go once its leaves are cleared: see clear.go
	unlessRemoved                    // the runtime removes the sandboxes that have stopped: see sandbox.go
)

// objection is one thing that speaks against letting a pod go.
type objection struct {
	decision Decision
	why      Why
	unless   unless
}

// judgement is the judging of one pod: what is known, and all that speaks against letting it go.
type judgement struct {
	e       Evidence
	n       Node
	h       Hold
	r       Rules
	now     Instant
	against []objection
	start   Verdict // what is said before any objection, and remembered whatever they are
}

// Judge says what may happen to one entry of the pods directory, from one look's
// evidence, the hold that the looks before it left, the rules and the time. It is pure:
// the same values give the same verdict.
//
// The evidence is read once, into objections. Then they are weighed: none lets the pod go once
// time has passed; where all of them would fall with one thing that can be brought about or
// waited for, the verdict is what that allows, and never Reap.
func Judge(e Evidence, n Node, h Hold, r Rules, now Instant) Verdict {
	j := &judgement{e: e, n: n, h: h, r: r, now: now, start: Verdict{UID: e.UID, Name: e.Name, Decision: Reap}}
	if e.UID == "" {
		j.start.KeepFor(ReasonInvalidUID, "the name is no pod UID")
		return j.start
	}
	j.objections()
	v := j.clear(j.weigh(0))
	if e.Unread && v.Decision != Keep {
		v.KeepFor(ReasonContentUnknown, unknownDetail(FactContent, e.Facts[FactContent]))
	}
	v.unmounting(e.Umount)
	return v
}

// objections reads the evidence into objections.
func (j *judgement) objections() {
	if j.r.Waive {
		j.start.Waived()
	} else {
		j.start.Settled(j.n, j.r, j.now)
		j.kubelet()
	}
	for _, rule := range rules {
		if !rule.inRuntime() && (!j.e.RuntimeOnly || !rule.ofDirectory()) && (!j.e.Unread || !rule.ofContent()) {
			j.apply(rule, 0)
		}
	}
	j.terminating()
	j.notRunning()
	var stopped unless
	if !j.r.Waive && j.e.forgotten() {
		stopped = unlessRemoved
	}
	for _, rule := range rules {
		if rule.inRuntime() {
			j.apply(rule, stopped)
		}
	}
}

func (j *judgement) object(d Decision, reason Reason, detail string, need unless) {
	j.against = append(j.against, objection{d, Why{reason, detail}, need})
}

// apply objects unless the rule's fact is the one truth that lets the pod go.
func (j *judgement) apply(rule rule, need unless) {
	switch f := j.e.Facts[rule.fact]; {
	case f.Truth == rule.dead:
	case f.Truth != Unknown:
		if rule.fact == FactHeld && !j.r.Waive && len(j.e.Leaves) > 0 {
			need = unlessCleared
		}
		j.object(rule.decision, rule.alive, f.Detail, need)
	case j.r.silent(rule.fact), rule.waivable && j.r.Waive:
	case rule.unknown == ReasonRuntimeUnknown && j.n.RuntimeLists.Truth == No:
		j.object(Keep, ReasonRuntimeEmpty, j.n.RuntimeLists.Detail, 0)
	case rule.shared:
		j.object(Keep, rule.unknown, unknownDetail(rule.fact, f), unlessDoubt)
	default:
		j.object(Keep, rule.unknown, unknownDetail(rule.fact, f), 0)
	}
}

// doubts reports whether the rule meets a doubt that is about the node and not about this pod.
// A runtime that lists nothing has answered.
func (j *judgement) doubts(rule rule) bool {
	return rule.shared && j.e.Facts[rule.fact].Truth == Unknown && !j.r.silent(rule.fact) && (!rule.waivable || !j.r.Waive) &&
		(rule.unknown != ReasonRuntimeUnknown || j.n.RuntimeLists.Truth != No)
}

// weigh makes a verdict of the objections, those left out that fall with what is assumed.
func (j *judgement) weigh(assume unless) Verdict {
	v := j.start
	v.Why = slices.Clip(v.Why)
	var against []objection
	var need unless
	stands := v.Decision != Reap // the kubelet is not there, or has just started
	for _, o := range j.against {
		if o.unless != 0 && o.unless&^assume == 0 {
			continue
		}
		against = append(against, o)
		need |= o.unless
		stands = stands || o.unless == 0
	}
	need &^= assume
	good := !stands && need == 0
	forgotten := !stands && need == unlessRemoved
	if forgotten {
		v.sandboxes(j.e, j.r, j.now)
		good = j.r.RemoveSandboxes
	} else {
		for _, o := range against {
			v.keep(o.decision, o.why.Reason, o.why.Detail)
		}
	}
	of := Hold{ID: j.e.ID, Sandboxes: need&unlessRemoved != 0}
	if !stands && need&unlessDoubt != 0 && need&unlessCleared == 0 && (!of.Sandboxes || j.r.RemoveSandboxes) {
		v.pause(of, j.h, j.r, j.now)
	}
	if !j.e.RuntimeOnly {
		v.Aged("directory", j.e.Changed, j.r.Hold, "the hold of "+j.r.Hold.String(), j.now)
	}
	if good {
		v.hold(of, j.h, j.r, j.now)
	}
	if forgotten && v.Decision == Wait && !v.For(ReasonYoung) && !v.For(ReasonHold) {
		v.Sandboxes = j.e.Sandboxes
	}
	return v
}
