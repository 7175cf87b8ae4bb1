package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Rules are the operator's choices. All durations are as configured; none is read from
// the node.
type Rules struct {
	Hold      time.Duration // how long evidence must stay good, on CLOCK_BOOTTIME
	Settle    time.Duration // how long the kubelet must have run
	Confirm   time.Duration // how long a parked pod waits for a sign of life
	Retention time.Duration // how long ephemeral data stays in quarantine
	// CNIOlderThan is how old what CNI left must be.
	CNIOlderThan time.Duration
	MaxPerLook   int  // most pods taken in one look; 0 is no limit
	Observe      bool // change nothing
	// Waive leaves out what only a kubelet or a runtime can say (--runtime-endpoint
	// none). A source that says alive keeps all the same.
	Waive bool
	// NeedAPI: an API server was named, and while it cannot be asked everything is kept.
	NeedAPI bool
	// RemoveSandboxes: a sandbox that has stopped and that nobody but the runtime knows is
	// removed through the runtime.
	RemoveSandboxes bool
}

// Decision is what Judge says of a pod.
type Decision string

// Keep until something changes on the node or a person acts; Wait, which ends by
// itself; Reap.
const (
	Keep Decision = "keep"
	Wait Decision = "wait"
	Reap Decision = "reap"
)

// Hold remembers the first of an unbroken row of good looks at one directory.
type Hold struct {
	Since Instant `json:"since"`
	ID    DirID   `json:"id"`
	// Sandboxes is true while sandboxes that have stopped are all that keeps the pod. Once
	// they are gone the hold begins anew: their removal has changed the node, the evidence
	// that the runtime knows nothing of the pod is as old as that, and what the kubelet can
	// now do by itself it does within this time.
	Sandboxes bool `json:"sandboxes,omitempty"`
	// Unwanted is since when the runtime has had the pod though it is not wanted. It is a
	// memory of its own: the rest of the hold may be zero.
	Unwanted Instant `json:"unwanted,omitzero"`
	// Paused is since when looks have met a doubt that is not about this pod, and Lost how
	// long such pauses before it took: that time does not count.
	Paused Instant       `json:"paused,omitzero"`
	Lost   time.Duration `json:"lost,omitempty"`
}

// Verdict is Judge's word on one pod, with every reason. Reap has no reason but
// ReasonWaived.
type Verdict struct {
	UID      parsers.PodUID
	Name     string
	Decision Decision
	Why      []Why
	// Hold is what to remember for the next look; zero where the evidence was not good.
	Hold Hold
	// Leaves are the directories whose content is to go to quarantine, of a pod that waits
	// for nothing but the kubelet's volume manager.
	Leaves []string
	// Sandboxes are those that the runtime is to be asked to remove, of a pod that waits for
	// nothing else.
	Sandboxes []Sandbox
	// Again says how long from now another look could tell something that is no verdict: that
	// the pod terminates for ever. 0 is never.
	Again time.Duration
	// Due says how long from now time alone could change the verdict; 0 where it cannot.
	Due time.Duration
}

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

// rules is the table of evidence of docs/how-it-decides.md. The facts named and swept are
// judged together by letGo, time by Judge itself.
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

// Judge says what may happen to one entry of the pods directory, from one look's
// evidence, the hold that the looks before it left, the rules and the time. It is pure:
// the same values give the same verdict.
func Judge(e Evidence, n Node, h Hold, r Rules, now Instant) Verdict {
	v := judge(e, n, h, r, now).clear(e, n, h, r, now)
	if e.Unread && v.Decision != Keep {
		v.keep(Keep, ReasonContentUnknown, unknownDetail(FactContent, e.Facts[FactContent]))
	}
	v.unmounting(e.Umount)
	return v
}

func judge(e Evidence, n Node, h Hold, r Rules, now Instant) Verdict {
	v := Verdict{UID: e.UID, Name: e.Name, Decision: Reap}
	if e.UID == "" {
		v.keep(Keep, ReasonInvalidUID, "the name is no pod UID")
		return v
	}
	if r.Waive {
		v.Waived()
	} else {
		v.kubelet(e.Facts, n, r, now)
	}
	for _, rule := range rules {
		if !rule.inRuntime() && (!e.RuntimeOnly || !rule.ofDirectory()) && (!e.Unread || !rule.ofContent()) {
			v.apply(rule, e.Facts[rule.fact], n, r)
		}
	}
	v.terminating(e, n, h, now)
	v.notRunning(e, n, r, now)
	forgotten := v.Decision == Reap && !r.Waive && e.forgotten()
	for _, rule := range rules {
		if rule.inRuntime() && !forgotten {
			v.apply(rule, e.Facts[rule.fact], n, r)
		}
	}
	good := v.Decision == Reap
	if !good {
		v.pause(e, n, h, r, now)
	}
	if forgotten {
		v.sandboxes(e, r, now)
	}
	if !e.RuntimeOnly {
		v.Aged("directory", e.Changed, r.Hold, "the hold of "+r.Hold.String(), now)
	}
	if good && (!forgotten || r.RemoveSandboxes) {
		v.hold(Hold{ID: e.ID, Sandboxes: forgotten}, h, r, now)
	}
	if forgotten && v.Decision == Wait && !v.For(ReasonYoung) && !v.For(ReasonHold) {
		v.Sandboxes = e.Sandboxes
	}
	return v
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

// apply adds the rule's reason unless the fact is the one truth that lets the pod go.
func (v *Verdict) apply(rule rule, f Fact, n Node, r Rules) {
	switch {
	case f.Truth == rule.dead:
		return
	case f.Truth != Unknown:
		v.keep(rule.decision, rule.alive, f.Detail)
	case r.silent(rule.fact), rule.waivable && r.Waive:
		return
	case rule.unknown == ReasonRuntimeUnknown && n.RuntimeLists.Truth == No:
		v.keep(Keep, ReasonRuntimeEmpty, n.RuntimeLists.Detail)
	default:
		v.keep(Keep, rule.unknown, unknownDetail(rule.fact, f))
	}
}

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

// kubelet judges whether the kubelet that runs now has let the pod go.
func (v *Verdict) kubelet(f Facts, n Node, r Rules, now Instant) {
	v.Settled(n, r, now)
	if n.Kubelet.Truth != Yes {
		return
	}
	if letGo(f) {
		return
	}
	v.keptByKubelet(f)
	known := false
	for _, n := range [...]FactName{FactCgroup, FactSandbox, FactContainer, FactPodLogs, FactPodResources} {
		known = known || f[n].Truth == Yes
	}
	switch {
	case f[FactSwept].Truth == Unknown && f[FactSwept].Detail != "": // the pod network: see NetworkGate
		v.keep(Keep, ReasonKubeletUnknown, "that the kubelet named other pods says nothing of this one: "+f[FactSwept].Detail)
	case f[FactSwept].Truth != Yes:
		v.keep(Keep, ReasonKubeletUnknown, "the kubelet that runs now has named neither this pod nor, since its start, any other")
	case !known: // else the reason is that the runtime or a cgroup knows it
		v.keep(Keep, ReasonKubeletUnknown, "the kubelet that runs now has named other pods and not this one, and it is not known whether "+doubtful(f))
	}
}

// letGo says whether the pod is known not to be wanted: the kubelet that runs now named
// the UID; or a list that is known to be whole came without it; or that kubelet named some
// orphan, which it does only once its sources are ready, and neither runtime nor cgroups
// know the pod, nor does it keep the pod's log directory (podlogs.go). The kubelet makes a living pod's cgroup before its directory, so a pod that
// merely waits for a volume has one.
//
// That the kubelet's pod list answers without the UID is no such sign by itself. A kubelet
// that has started while the API server is away lists its static pods and not one of the API
// pods that live on the node; so which list is whole is for FactReleased to say.
func letGo(f Facts) bool {
	return f[FactNamed].Truth == Yes || f[FactReleased].Truth == Yes || unknownToKubelet(f)
}

// doubtful says what is not known of a pod that the kubelet has not named, though it named others.
func doubtful(f Facts) string {
	logs := f[FactPodLogs]
	if f[FactCgroup].Truth == Unknown || f[FactSandbox].Truth == Unknown || f[FactContainer].Truth == Unknown || logs.Truth != Unknown {
		return "runtime or cgroups have it"
	}
	return strings.TrimSuffix("the kubelet keeps its log directory: "+logs.Detail, ": ")
}

// Waived adds the reason under which no kubelet and no runtime are asked.
func (v *Verdict) Waived() {
	v.Why = addWhy(v.Why, ReasonWaived, "--runtime-endpoint none: no kubelet and no runtime were asked")
}

// Settled keeps without a kubelet that runs, and for a while after its start: it makes and
// tears down sandboxes then that the runtime and the caches of CNI know differently.
func (v *Verdict) Settled(n Node, r Rules, now Instant) {
	if n.Kubelet.Truth != Yes {
		if n.Agrees.Truth == No { // the better answer to why none is known
			v.KeepFor(ReasonContradiction, n.Agrees.Detail)
		}
		v.KeepFor(ReasonKubeletUnknown, unknownDetail(FactNamed, n.Kubelet))
		return
	}
	if up := now.Boot - n.KubeletID.Start; up < r.Settle {
		v.WaitFor(r.Settle-up, ReasonKubeletStarting, fmt.Sprintf("the kubelet (PID %d) has run for %s of %s",
			n.KubeletID.PID, up.Round(time.Second), r.Settle))
	}
}

// Aged waits until what was judged, a directory or a file, has not changed for least, by the
// wall clock that file times use. A time in the future is young: the clock was set back, and
// doubt waits. than is least in words.
func (v *Verdict) Aged(what string, changed time.Time, least time.Duration, than string, now Instant) {
	if least <= 0 {
		return
	}
	if changed.IsZero() {
		v.KeepFor(ReasonYoung, "the "+what+"'s age is not known")
		return
	}
	age := now.Wall.Sub(changed)
	if age >= least {
		return
	}
	detail := fmt.Sprintf("changed %s ago, less than %s", age.Round(time.Second), than)
	if age < 0 {
		detail = fmt.Sprintf("changed at %s, which the clock has not reached", changed.UTC().Format(time.RFC3339))
	}
	v.WaitFor(least-age, ReasonYoung, detail)
}

// hold waits until two looks at the same directory, a hold apart in one boot, agree.
func (v *Verdict) hold(of, h Hold, r Rules, now Instant) {
	since, ok := h.resume(of, r, now)
	if !ok {
		since, h = 0, Hold{Since: now}
	}
	v.Hold.Since, v.Hold.ID, v.Hold.Sandboxes, v.Hold.Lost = h.Since, of.ID, of.Sandboxes, h.Lost
	v.Good(since, r)
}

// Good waits until the evidence has been good for a hold; since is for how long it has been.
func (v *Verdict) Good(since time.Duration, r Rules) {
	if since < r.Hold {
		v.WaitFor(r.Hold-since, ReasonHold, fmt.Sprintf("the evidence has been good for %s of %s", since.Round(time.Second), r.Hold))
	}
}

// KeepFor keeps what was judged for a reason.
func (v *Verdict) KeepFor(reason Reason, detail string) { v.keep(Keep, reason, detail) }

// WaitFor makes what was judged wait, for d at the least. The longest wait counts: only when
// all are over can the verdict change.
func (v *Verdict) WaitFor(d time.Duration, reason Reason, detail string) {
	v.keep(Wait, reason, detail)
	v.Due = max(v.Due, d)
}

// keep adds a reason and makes the decision no weaker than d.
func (v *Verdict) keep(d Decision, reason Reason, detail string) {
	if v.Decision != Keep {
		v.Decision = d
	}
	v.Leaves, v.Sandboxes = nil, nil // whatever keeps the pod keeps these
	v.Why = addWhy(v.Why, reason, detail)
}

// addWhy adds a reason once: the first detail is the one that is shown.
func addWhy(why []Why, reason Reason, detail string) []Why {
	for _, w := range why {
		if w.Reason == reason {
			return why
		}
	}
	return append(why, Why{reason, detail})
}

// Refuse keeps a pod that the rules would let go, for a reason that only trying could show.
// Its words take the place of what was known before.
func (v *Verdict) Refuse(why []Why) {
	for _, w := range why {
		v.Why = slices.DeleteFunc(v.Why, func(old Why) bool { return old.Reason == w.Reason })
		v.keep(Keep, w.Reason, w.Detail)
	}
}

// For says whether the verdict has the reason.
func (v *Verdict) For(reason Reason) bool {
	for _, w := range v.Why {
		if w.Reason == reason {
			return true
		}
	}
	return false
}

// Living says whether the pod plainly lives, so that keeping it needs no word: the runtime
// or the cgroups know it, or the kubelet or the API server lists it, as it does those that have completed.
// A pod that should be gone, and of which the runtime has something all the same, is no such pod.
func (v *Verdict) Living() bool {
	if v.For(ReasonSandboxOrphaned) || v.For(ReasonTerminating) || v.For(ReasonNotRunning) {
		return false
	}
	return v.For(ReasonSandbox) || v.For(ReasonContainer) || v.For(ReasonCgroup) ||
		v.For(ReasonKubeletLists) || v.For(ReasonAPILists)
}
