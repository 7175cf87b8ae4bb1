package ui

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

type outcomeView struct {
	UID     string                  `json:"uid"`
	Entry   string                  `json:"entry"`
	Result  policy.Result           `json:"result"`
	Taken   map[string]policy.Tally `json:"taken"`
	Residue []policy.Residue        `json:"residue"`
	Why     []policy.Why            `json:"why"`
	Error   string                  `json:"error,omitempty"`
}

// Outcomes is the JSON of restore and purge.
type Outcomes struct {
	Outcomes []outcomeView `json:"outcomes"`
}

// NewOutcomes shows the results of an operator's actions.
func NewOutcomes(outcomes []policy.Outcome) Outcomes {
	views := []outcomeView{}
	for _, o := range outcomes {
		views = append(views, outcomeView{
			string(o.Action.UID), o.Action.Entry, o.Result, takenByName(o.Taken), list(o.Left), list(o.Why), o.Err,
		})
	}
	return Outcomes{views}
}

func takenByName(taken map[contents.Class]policy.Tally) map[string]policy.Tally {
	byName := map[string]policy.Tally{}
	for class, t := range taken {
		byName[class.String()] = t
	}
	return byName
}

// Restored is the JSON of restore.
type Restored struct {
	Outcomes
	CNI    []CNIOutcome  `json:"cni"`
	Totals RestoreTotals `json:"totals"`
}

// NewRestored converts the results of a restore for display.
func NewRestored(outcomes Outcomes, files cni.Restored) Restored {
	views, totals := cniOutcomes(files)
	return Restored{outcomes, views, totals}
}

// Restored writes the result of a restore.
func (p *Printer) Restored(c Context, entry policy.EntryState, outcome policy.Outcome, files cni.Restored) {
	left := total(entry.Left)
	place := c.PodsDir + "/" + string(entry.UID)
	if entry.Leaf != "" {
		place += "/" + entry.Leaf
	}
	p.Printf("put back: %s\n", clean.Text(place))
	if left.Entries > 0 {
		p.Printf("  %s, %s\n", human.Count(left.Entries, "entry"), size(left.Bytes, partial(entry.Left)))
	}
	p.removed("Not restored, because it was removed before", entry.Taken)
	if len(entry.Taken) > 0 {
		p.Para("  ", "The kubelet makes its own files and the projected payloads again if it runs the pod.")
	}
	p.volData(entry.VolData)
	p.CNIRestored(files)
	p.Gap()
	if outcome.Conflict != "" {
		p.Para("", "It had been made again meanwhile: the newer directory lies in quarantine as "+clean.Text(outcome.Conflict)+". Inspect it before you purge it.")
	}
	p.Para("", "The pod is kept from now on (reason restored). If it is no longer needed, have it judged again:")
	p.Printf("  orphan-reaper quarantine forget %s\n", entry.UID)
}

func hasData(rs []policy.Residue) bool {
	return slices.ContainsFunc(rs, policy.Residue.NeedsPerson)
}

// outcomes sets the outcome of a sweep for each pod. It adds pods that the report lacks, because they were removed before its
// look.
func (v *Report) outcomes(outcomes []policy.Outcome) {
	last, shown, only := map[string]*policy.Outcome{}, uids(v.Pods), uids(v.RuntimeOnly)
	looked := len(v.Pods) // the others are of the outcomes alone
	for i := range outcomes {
		o := &outcomes[i]
		uid, e, in, to := string(o.Action.UID), o.Action.Evidence, shown, &v.Pods
		last[uid] = o
		if e != nil && e.RuntimeOnly {
			in, to = only, &v.RuntimeOnly
		}
		if e == nil {
			e = &policy.Evidence{UID: o.Action.UID, Name: uid}
		}
		if !in[uid] {
			in[uid] = true
			*to = append(*to, viewPod(&policy.Judged{Evidence: *e, Verdict: policy.Verdict{Decision: policy.Reap, Why: o.Action.Why}}))
		}
	}
	for i := range v.RuntimeOnly {
		v.RuntimeOnly[i].Outcome = outcomeKept
	}
	for i := range v.Pods {
		pod := &v.Pods[i]
		o, acted := last[pod.UID]
		switch {
		case acted && pod.UID != "" && i < looked && pod.Verdict != policy.Reap && !pod.Parked && outcomeWord(o) == outcomeQuarantined:
			pod.Outcome = outcomeKept // another directory of the pod, which was made after the move
		case acted && pod.UID != "":
			pod.Outcome, pod.Error = outcomeWord(o), o.Err
			pod.adjustVerdict(o)
		case v.show.DryRun && len(pod.Clear) > 0:
			pod.Outcome = outcomeWouldQuarantine
		case pod.Verdict != policy.Reap && !pod.Parked, pod.Verdict == policy.Keep:
			pod.Outcome = outcomeKept
		case v.show.DryRun && pod.Verdict == policy.Reap:
			pod.Outcome = wouldBecome(pod.Residue)
		case pod.Parked:
			pod.Outcome = outcomeQuarantined
		default:
			pod.Outcome = outcomeKept
		}
	}
}

func uids(pods []podView) map[string]bool {
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	return there
}

// adjustVerdict sets the verdict of a pod that was not removed to keep, with the reasons of the removal.
func (v *podView) adjustVerdict(o *policy.Outcome) {
	switch o.Result {
	case policy.Refused, policy.Failed, policy.Conflict:
		v.Verdict, v.Why, v.Reasons = policy.Keep, list(o.Why), reasonsOf(o.Why)
	case policy.Done, policy.Gone, policy.Partly:
		if len(o.Left) > 0 {
			v.Residue = o.Left
		}
	}
}

// outcomeWord returns the pod's outcome by the result of its last action. Gone: the kubelet has removed it.
func outcomeWord(o *policy.Outcome) string {
	switch o.Result {
	case policy.Failed:
		return outcomeFailed
	case policy.Refused, policy.Conflict:
		if o.Action.Kind == policy.Strip || o.Action.Kind == policy.Purge {
			return outcomeQuarantined // nothing was removed or moved
		}
		return outcomeKept
	case policy.Partly:
		return outcomeQuarantined
	case policy.Gone:
		if o.Action.Kind == policy.Clear {
			return outcomeKept // the leaf was empty: the pod is where it was
		}
		return outcomeRemoved
	case policy.Done:
	}
	switch o.Action.Kind {
	case policy.Park, policy.Clear:
		return outcomeQuarantined
	case policy.PutBack: // a pod's directory is where it was
		return outcomeKept
	case policy.Strip, policy.Purge:
	}
	return outcomeRemoved
}

// wouldBecome returns the outcome that a sweep would have. It removes a pod completely if the pod holds only the kubelet's own
// files and projected payloads. A directory of the kubelet that was not read completely may hold anything.
func wouldBecome(rs []policy.Residue) string {
	for _, r := range rs {
		if r.Partial && r.Class == contents.ClassSkeleton || !contents.TakeStrip.Has(r.Class) {
			return outcomeWouldQuarantine
		}
	}
	return outcomeWouldRemove
}
