package policy

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Rules are the operator's settings.
type Rules struct {
	Hold      time.Duration // how long evidence must stay good, on CLOCK_BOOTTIME
	Confirm   time.Duration // how long a parked pod waits for a sign of life
	Retention time.Duration // how long ephemeral data stays in quarantine
	// CNIOlderThan is how old a CNI file must be to be removed.
	CNIOlderThan time.Duration
	MaxPerLook   int  // most pods moved in one look; 0 is no limit
	Observe      bool // change nothing
	// Waive leaves out what only a kubelet or a runtime can report (--runtime-endpoint none). A source that shows alive
	// keeps all the same, but for the log directory and the pod-resources socket: no kubelet is left to remove them.
	Waive bool
	// NeedAPI: an API server was named, and while it cannot be asked everything is kept.
	NeedAPI bool
}

// Stage is where what was judged lies.
type Stage uint8

// The stages.
const (
	InPlace      Stage = iota // in the pods directory
	InRuntime                 // known to the runtime alone
	InQuarantine              // moved to quarantine, or being removed there
	Resting                   // confirmed dead: what is left waits for its retention or for an operator
)

// Decision is what becomes of a pod directory, or of an entry of the quarantine.
type Decision string

// The decisions. Return is for entries of the quarantine only.
const (
	Keep   Decision = "keep"     // stays where it is until something changes on the node or an operator acts
	Return Decision = "put-back" // goes back to the pods directory
	Wait   Decision = "wait"     // ends by itself
	Reap   Decision = "reap"     // may go to quarantine; in quarantine, what holds no data may be removed
)

// strength orders the decisions: a reason can only make the decision stronger.
var strength = map[Decision]int{Reap: 0, Wait: 1, Return: 2, Keep: 3}

// Verdict is the judgement of one pod, with every reason. In the pods directory Reap has no reason but
// ReasonWaived.
type Verdict struct {
	Stage    Stage
	Decision Decision
	Why      []Why

	// Alive, of an entry: something showed that the pod lives. A judgement was wrong, and the breaker must open.
	Alive bool
	// Back, of an entry: a static pod is back, although the judgement that it was dead was right.
	Back bool

	// The rest is of pods in place.

	// Hold is what to remember for the next look; zero where the evidence was not good.
	Hold Hold
	// Leaves are the directories whose content is to go to quarantine, of a pod that waits
	// for nothing but the kubelet's volume manager.
	Leaves []string
	// Again is after how long another look could show that the pod terminates forever. 0 is never.
	Again time.Duration
	// Due is after how long time alone could change the verdict; 0 if it cannot.
	Due time.Duration
}

// Judged is one pod, or one entry of the quarantine: the complete evidence of one look, and the verdict on it.
type Judged struct {
	Evidence
	Verdict
}

// At returns those of the pods that are at one of the stages.
func At(pods []Judged, stages ...Stage) iter.Seq[*Judged] {
	return func(yield func(*Judged) bool) {
		for i := range pods {
			if slices.Contains(stages, pods[i].Stage) && !yield(&pods[i]) {
				return
			}
		}
	}
}

// Waived adds the reason under which no kubelet and no runtime are asked.
func (v *Verdict) Waived() {
	v.Why = addWhy(v.Why, ReasonWaived, "--runtime-endpoint none: no kubelet and no runtime were asked")
}

// NeedKubelet keeps what was judged without a kubelet that runs.
func (v *Verdict) NeedKubelet(n Node) {
	if n.Kubelet.Truth == Yes {
		return
	}
	if n.Agrees.Truth == No { // the better answer to why none is known
		v.KeepFor(ReasonContradiction, n.Agrees.Detail)
	}
	v.KeepFor(ReasonKubeletUnknown, unknownDetail(FactNamed, n.Kubelet))
}

// Aged waits until what was judged has not changed for least, by the wall clock of file times. A time in the future is
// young: the clock was set back. than describes least.
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

// Good waits until the evidence has been good for a hold; since is for how long it has been.
func (v *Verdict) Good(since time.Duration, r Rules) {
	if since < r.Hold {
		v.WaitFor(r.Hold-since, ReasonHold, fmt.Sprintf("the evidence has been good for %s of %s", since.Round(time.Second), r.Hold))
	}
}

// KeepFor keeps what was judged for a reason.
func (v *Verdict) KeepFor(reason Reason, detail string) { v.keep(Keep, reason, detail) }

// WaitFor makes what was judged wait, for d at the least. The longest wait counts.
func (v *Verdict) WaitFor(d time.Duration, reason Reason, detail string) {
	v.keep(Wait, reason, detail)
	v.Due = max(v.Due, d)
}

// keep adds a reason and makes the decision no weaker than d.
func (v *Verdict) keep(d Decision, reason Reason, detail string) {
	if strength[d] > strength[v.Decision] {
		v.Decision = d
	}
	v.Leaves = nil // whatever keeps the pod keeps these
	v.Why = addWhy(v.Why, reason, detail)
}

// addWhy adds a reason once: the first detail is the one that is shown.
func addWhy(why []Why, reason Reason, detail string) []Why {
	if has(why, reason) {
		return why
	}
	return append(why, Why{reason, detail})
}

// OnlyUnreported reports whether nothing keeps the pod but that the kubelet has not reported it, and what ends by itself. So
// are hidden orphans, and pods that have completed.
func (v *Verdict) OnlyUnreported() bool {
	others := func(w Why) bool { return w.Reason != ReasonNotReported && !w.Reason.Passing() }
	return v.For(ReasonNotReported) && !slices.ContainsFunc(v.Why, others)
}

// Refuse keeps a pod that the rules would release, for reasons that only a try could show. They replace earlier ones.
func (v *Verdict) Refuse(why []Why) {
	for _, w := range why {
		v.Why = slices.DeleteFunc(v.Why, func(old Why) bool { return old.Reason == w.Reason })
		v.keep(Keep, w.Reason, w.Detail)
	}
}

// For reports whether the verdict has the reason.
func (v *Verdict) For(reason Reason) bool { return has(v.Why, reason) }

func has(why []Why, reason Reason) bool {
	return slices.ContainsFunc(why, func(w Why) bool { return w.Reason == reason })
}

// Signature is the same for two verdicts with the same reasons, without details, and for a pod that is kept without those
// that end by themselves. All living pods have one: a pod that forges lines about itself must not buy a record or a look
// for each fact that changes.
func (v *Verdict) Signature() string {
	if v.Living() {
		return "living"
	}
	words := []string{string(v.Decision)}
	for _, w := range v.Why {
		if v.Decision != Keep || !w.Reason.Passing() {
			words = append(words, string(w.Reason))
		}
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
