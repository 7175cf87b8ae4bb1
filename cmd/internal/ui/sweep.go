package ui

import (
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// outcomes sets how the sweep ended for each pod. A pod that the report's look does not have, because it was removed
// before, is added from its action.
func (v *Report) outcomes(outcomes []policy.Outcome) {
	last, shown, only := map[string]*policy.Outcome{}, uids(v.Pods), uids(v.RuntimeOnly)
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
		case acted && pod.UID != "":
			pod.Outcome, pod.Error = outcomeWord(o), o.Err
			pod.decided(o)
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

// uids returns which pods are there.
func uids(pods []podView) map[string]bool {
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	return there
}

// decided brings the verdict in line with an unexpected outcome: what was left
// or put back is kept, with the reasons that the removal gave.
func (v *podView) decided(o *policy.Outcome) {
	switch o.Result {
	case policy.Refused, policy.Failed, policy.Conflict:
		v.Verdict, v.Why, v.Reasons = policy.Keep, list(o.Why), reasonsOf(o.Why)
	case policy.Done, policy.Gone, policy.Partly:
		if len(o.Left) > 0 {
			v.Residue = o.Left
		}
	}
}

// outcomeWord returns the pod's outcome by the result of its last action. Gone means that the kubelet was
// faster: nothing is left of it.
func outcomeWord(o *policy.Outcome) string {
	switch o.Result {
	case policy.Failed:
		return outcomeFailed
	case policy.Refused, policy.Conflict:
		if o.Action.Kind == policy.Strip || o.Action.Kind == policy.Purge {
			return outcomeQuarantined // Nothing was removed or moved.
		}
		return outcomeKept
	case policy.Partly:
		return outcomeQuarantined
	case policy.Gone:
		if o.Action.Kind == policy.Clear {
			return outcomeKept // The leaf was empty: the pod is where it was.
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

// wouldBecome returns the outcome that a sweep would have: a pod that holds nothing but the kubelet's own
// files and projected payloads is removed wholly. A projected tree has one class, whatever of it
// was counted; a directory of the kubelet's own that was not read to its end may hold anything.
func wouldBecome(rs []policy.Residue) string {
	for _, r := range rs {
		if r.Partial && r.Class == contents.ClassSkeleton || !contents.TakeStrip.Has(r.Class) {
			return outcomeWouldQuarantine
		}
	}
	return outcomeWouldRemove
}
