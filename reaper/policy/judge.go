package policy

import "slices"

// group is when a rule is asked of a pod in place.
type group uint8

const (
	aboutPod       group = iota
	aboutDirectory       // where there is a directory
	aboutContent         // where there is one, and it was read
	aboutVolumes         // where it was read; a pod that was passed over is kept for what shows that it lives
	aboutKubelet         // its report, judged by judgement.report
	aboutEntry           // not asked: the fact is about entries of the quarantine
)

// traits are what else there is to a rule.
type traits uint8

const (
	// waivable: left out under Rules.Waive unless the fact shows alive, and about the kubelet also then.
	waivable traits = 1 << iota
	// shared: an unknown is a doubt about the node and not about this pod.
	shared
	// breaks, of an entry: what shows alive shows that a judgement was wrong, and opens the breaker. A static pod's
	// manifest that came back does not: see returned.
	breaks
	// sign, of an entry: a sign of life for as long as anything of the pod lies in quarantine, and doubt: its
	// Unknown keeps what was confirmed dead. A mount or an open file is none once the entry is confirmed: an operator
	// may look into the quarantine.
	sign
	doubt
)

// rule has the one truth of a fact that does not object, the reasons of the other two, and the decision then for a pod in
// place and for one that waits in quarantine ("" is not asked). Unknown keeps the former and has the latter wait, but for
// silent rules.
type rule struct {
	fact     FactName
	about    group
	dead     Truth
	alive    Reason
	unknown  Reason
	decision Decision
	parked   Decision
	traits   traits
}

func (r rule) has(t traits) bool { return r.traits&t != 0 }

// ruleOf returns the rule of a fact.
func ruleOf(n FactName) rule {
	return rules[slices.IndexFunc(rules[:], func(r rule) bool { return r.fact == n })]
}

// rules is the table of evidence of docs/how-it-decides.md, with every fact. Time is weighed
// last, by judgement.weigh and by JudgeParked.
var rules = [...]rule{
	// fact, when asked, the truth that releases, reason if the other, reason if unknown, then, then in quarantine, traits
	{FactRemade, aboutEntry, No, ReasonRemade, ReasonRemade, Keep, Return, breaks | sign | doubt},
	{FactDirectory, aboutDirectory, Yes, ReasonNotADirectory, ReasonContentUnknown, Keep, "", 0},
	{FactOwnMount, aboutDirectory, No, ReasonOwnMount, ReasonMountsUnknown, Keep, "", 0},
	{FactMounted, aboutPod, No, ReasonMounted, ReasonMountsUnknown, Keep, Return, shared | breaks},
	{FactSandbox, aboutPod, No, ReasonSandbox, ReasonRuntimeUnknown, Keep, Return, waivable | shared | breaks | sign | doubt},
	{FactContainer, aboutPod, No, ReasonContainer, ReasonRuntimeUnknown, Keep, Return, waivable | shared | breaks | sign | doubt},
	{FactCgroup, aboutPod, No, ReasonCgroup, ReasonCgroupUnknown, Keep, Return, shared | breaks | sign | doubt},
	{FactNamed, aboutKubelet, Yes, ReasonNotReported, ReasonNotReported, Keep, "", waivable},
	{FactTeardown, aboutPod, No, ReasonKubeletHolds, ReasonKubeletUnknown, Keep, "", waivable},
	{FactKubeletLists, aboutPod, No, ReasonKubeletLists, ReasonKubeletLists, Keep, Return, waivable | shared | breaks | sign},
	{FactAPILists, aboutPod, No, ReasonAPILists, ReasonAPIUnknown, Keep, Return, waivable | shared | breaks | sign},
	{FactStaticPod, aboutPod, No, ReasonStaticPod, ReasonStaticPod, Keep, Return, waivable | shared | sign},
	{FactStaged, aboutVolumes, No, ReasonStaged, ReasonStaged, Keep, Return, shared},
	{FactInUse, aboutPod, No, ReasonInUse, ReasonInUse, Wait, Wait, shared},
	{FactRestored, aboutPod, No, ReasonRestored, ReasonRestored, Keep, "", 0},
	{FactContent, aboutContent, Yes, ReasonContentUnknown, ReasonContentUnknown, Keep, "", 0},
	{FactUsed, aboutEntry, No, ReasonRemade, ReasonRemade, Keep, "", 0}, // see again
}

// asked reports whether the rule is asked of this pod by itself.
func (r rule) asked(e *Evidence) bool {
	switch r.about {
	case aboutDirectory:
		return !e.RuntimeOnly
	case aboutContent:
		return !e.RuntimeOnly && !e.Unread
	case aboutVolumes:
		return !e.Unread
	case aboutKubelet, aboutEntry:
		return false
	case aboutPod:
	}
	return true
}

// onlyYesCounts reports whether only a yes of the source counts. None of these may be the ground for releasing a pod.
func (r Rules) onlyYesCounts(n FactName) bool {
	return n == FactKubeletLists || n == FactAPILists && !r.NeedAPI
}

// silent reports whether the rule's Unknown keeps nothing.
func (r Rules) silent(rule rule) bool {
	return r.onlyYesCounts(rule.fact) || rule.has(waivable) && r.Waive
}

func unknownDetail(n FactName, f Fact) string {
	if f.Detail != "" {
		return f.Detail
	}
	return n.String() + " is not known"
}

// unless lists the conditions that would lift an objection. An objection without one stands, whatever else changes.
type unless uint8

const (
	unlessDoubt   unless = 1 << iota // a doubt that is about the node, if it went against the pod: see hold.go
	unlessCleared                    // the volume manager releases once its leaves are cleared: see clear.go
)

// noRuntime reports whether the rule's fact is the runtime's, and the runtime has answered with nothing at all.
func (n *Node) noRuntime(rule rule) bool {
	return rule.unknown == ReasonRuntimeUnknown && n.RuntimeLists.Truth == No
}

// objection is one thing that speaks against releasing a pod.
type objection struct {
	decision Decision
	why      Why
	unless   unless
	// untilReported is true where a report of the running kubelet lifts the objection, whatever unless has. The hold
	// runs meanwhile: see weigh.
	untilReported bool
}

// judgement is the judging of one pod: what is known, and all objections to releasing it.
type judgement struct {
	e       Evidence
	n       Node
	h       Hold
	r       Rules
	now     Instant
	against []objection
	start   Verdict // the verdict before any objection
}

// Judge returns the verdict on one entry of the pods directory, by one look's evidence, the hold of the looks before it,
// the rules and the time. It is pure. The evidence is read once, into objections, and these are weighed: only a pod
// without any objection may be Reap, and only once time has passed.
func Judge(e Evidence, n Node, h Hold, r Rules, now Instant) Verdict {
	j := &judgement{e: e, n: n, h: h, r: r, now: now, start: Verdict{Decision: Reap}}
	if e.RuntimeOnly {
		j.start.Stage = InRuntime
	}
	if e.UID == "" {
		j.start.KeepFor(ReasonInvalidUID, "the name is no pod UID")
		return j.start
	}
	j.objections()
	v := j.clear(j.weigh(0))
	if e.Unread && v.Decision != Keep {
		v.KeepFor(ReasonContentUnknown, unknownDetail(FactContent, e.Facts[FactContent]))
	}
	v.unmounting(e.Unmount)
	return v
}

// objections reads the evidence into objections.
func (j *judgement) objections() {
	if j.r.Waive {
		j.start.Waived()
	} else {
		j.start.NeedKubelet(j.n)
		j.report()
	}
	for _, rule := range rules {
		if rule.asked(&j.e) {
			j.apply(rule, 0)
		}
	}
	j.terminating()
	j.notRunning()
}

// report objects until the kubelet that runs now has reported the pod: only its report releases a pod. A kubelet reports a
// UID only if it is in none of its sources, has no running container, and no volume of it is mounted or in its volume
// manager (cleanupOrphanedPodDirs). It repeats the report every two seconds until the directory is gone.
func (j *judgement) report() {
	f := j.e.Facts[FactNamed]
	if j.n.Kubelet.Truth != Yes || f.Truth == Yes {
		return
	}
	j.against = append(j.against, objection{Keep, Why{ReasonNotReported, unknownDetail(FactNamed, f)}, 0, true})
}

func (j *judgement) object(d Decision, reason Reason, detail string, need unless) {
	j.against = append(j.against, objection{decision: d, why: Why{reason, detail}, unless: need})
}

// apply objects unless the rule's fact is the one truth that releases the pod.
func (j *judgement) apply(rule rule, need unless) {
	switch f := j.e.Facts[rule.fact]; {
	case f.Truth == rule.dead:
	case f.Truth != Unknown:
		if rule.fact == FactTeardown && !j.r.Waive && len(j.e.Leaves) > 0 {
			need = unlessCleared
		}
		j.object(rule.decision, rule.alive, f.Detail, need)
	case j.r.silent(rule):
	case j.doubts(rule):
		j.object(Keep, rule.unknown, unknownDetail(rule.fact, f), unlessDoubt)
	case j.n.noRuntime(rule):
		j.object(Keep, ReasonRuntimeEmpty, j.n.RuntimeLists.Detail, 0)
	default:
		j.object(Keep, rule.unknown, unknownDetail(rule.fact, f), 0)
	}
}

// doubts reports whether the fact is unknown, and the doubt is about the node. A runtime that lists nothing has answered.
func (j *judgement) doubts(rule rule) bool {
	f := j.e.Facts[rule.fact]
	return rule.has(shared) && f.Truth == Unknown && !f.Own && !j.r.silent(rule) && !j.n.noRuntime(rule)
}

// weigh makes a verdict of the objections, without those that the assumed conditions lift. Only clear.go assumes any, and
// never makes the verdict Reap.
//
//	no objection                      Reap, once time has passed
//	only the kubelet's report missing Keep, and the hold runs
//	doubts about the node alone       Keep, and the hold pauses
//	anything else                     Keep, or Wait where all that objects ends by itself
//
// A kubelet reports one orphan at a time until its directory is gone. The hold of the others runs meanwhile, so that a
// backlog takes one hold.
//
// stands: something objects that no condition lifts. need: the conditions that would lift all the others. good:
// nothing objects. standsWithout and needWithout are stands and need without the objections that a report lifts.
func (j *judgement) weigh(assume unless) Verdict {
	v := j.start
	v.Why = slices.Clip(v.Why)
	var need, needWithout unless
	stands := v.Decision != Reap // the kubelet is not there
	standsWithout := stands
	for _, o := range j.against {
		need |= o.unless &^ assume
		stands = stands || o.unless == 0
		if !o.untilReported {
			needWithout |= o.unless &^ assume
			standsWithout = standsWithout || o.unless == 0
		}
	}
	good := !stands && need == 0
	for _, o := range j.against {
		if o.unless == 0 || o.unless&^assume != 0 {
			v.keep(o.decision, o.why.Reason, o.why.Detail)
		}
	}
	of, h := Hold{ID: j.e.ID}, j.h
	if !standsWithout && needWithout&^unlessDoubt == 0 && needWithout != 0 {
		v.pause(of, h, j.r, j.now)
	}
	if !j.e.RuntimeOnly {
		v.Aged("directory", j.e.Changed, j.r.Hold, "the hold of "+j.r.Hold.String(), j.now)
	}
	switch {
	case good:
		v.Good(v.hold(of, h, j.r, j.now), j.r)
	case !standsWithout && needWithout == 0:
		v.hold(of, h, j.r, j.now)
	}
	return v
}
