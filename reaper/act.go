package reaper

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// act carries out the plans: what is parked first, then, unless one of those turned out to
// live, the new ones; and then one mount scan for all that was parked.
func (r *Reaper) act(ctx context.Context, rep *Report, plans []policy.Batch) {
	if r.Remover == nil {
		return
	}
	r.freeze(rep)
	r.openBreaker(rep)
	var taken []policy.Outcome
	var sandboxes []policy.Batch
	late := false
	for _, plan := range plans {
		if plan.Actions[0].Kind == policy.RemoveSandbox {
			sandboxes = append(sandboxes, plan)
			continue
		}
		plan, hit := r.unmounted(ctx, plan)
		late = late || hit
		if len(plan.Actions) == 0 || late && !r.proven && plan.Actions[0].Kind == policy.Park {
			continue // the first pod has not proved dead after all, so no other follows it
		}
		outs := r.execute(ctx, rep, plan)
		for _, o := range outs {
			switch {
			case o.Action.Kind == policy.Park && o.Result == policy.Done:
				taken = append(taken, o)
			case o.Action.Kind == policy.Clear && o.Result == policy.Done:
				taken = append(taken, o)
				r.cleared(rep, o.Action.UID)
			case o.Action.Kind == policy.Strip && (o.Result == policy.Done || o.Result == policy.Partly):
				r.proven = true
			}
		}
		if outs == nil {
			break
		}
	}
	r.scanTaken(ctx, rep, taken)
	r.removeSandboxes(ctx, rep, sandboxes)
}

// unmounted scans the mounts once more, immediately before something is removed: since the
// look read them it has read directories, and batches before this one have taken their time.
// What is mounted by now, or not known, stays for the next look. It is true where that is so.
func (r *Reaper) unmounted(ctx context.Context, plan policy.Batch) (policy.Batch, bool) {
	var uids []parsers.PodUID
	for _, a := range plan.Actions {
		if a.Kind == policy.Strip || a.Kind == policy.Purge {
			uids = append(uids, a.UID)
		}
	}
	if len(uids) == 0 {
		return plan, false
	}
	facts := r.Prober.Mounts(ctx, uids)
	left := policy.Batch{Actions: slices.DeleteFunc(slices.Clone(plan.Actions), func(a policy.Action) bool {
		return (a.Kind == policy.Strip || a.Kind == policy.Purge) && facts[a.UID].Truth != policy.No
	})}
	return left, len(left.Actions) < len(plan.Actions)
}

// removeSandboxes comes last: a runtime may take minutes, and what is parked was judged, and
// must be scanned for mounts, before that. The runtime is asked about each sandbox anew.
func (r *Reaper) removeSandboxes(ctx context.Context, rep *Report, plans []policy.Batch) {
	for _, plan := range plans {
		outs := r.execute(ctx, rep, plan)
		if outs == nil || slices.ContainsFunc(outs, notBegun) {
			return
		}
	}
}

// execute writes the intents of one plan to the ledger, carries it out, and writes down how
// it ended. It returns nil where the intents could not be written: then nothing is done.
func (r *Reaper) execute(ctx context.Context, rep *Report, plan policy.Batch) []policy.Outcome {
	if err := r.comeHome(plan); err != nil {
		r.fail(rep, "cannot remember where the quarantine is, so nothing is moved there: "+err.Error())
		return nil
	}
	now := r.Clock.Now()
	intents := make([]policy.Record, 0, len(plan.Actions))
	for i := range plan.Actions {
		a := &plan.Actions[i]
		rec := policy.Intent(*a, rep.Look.Node, now)
		intents = append(intents, rec)
		if a.Kind == policy.Park || a.Kind == policy.Clear {
			a.Manifest = manifest(rec)
		}
	}
	if _, err := r.Ledger.Append(intents...); err != nil {
		r.fail(rep, "cannot write to the ledger, so nothing is done: "+err.Error())
		return nil
	}
	r.doing.Store(fmt.Sprintf("%s of %d, the first is pod %s", plan.Actions[0].Kind, len(plan.Actions), plan.Actions[0].UID))
	outs := r.Remover.Execute(ctx, plan)
	now = r.Clock.Now()
	var done []policy.Record
	for _, o := range outs {
		done = append(done, policy.Recorded(o, rep.Look.Node, now)...)
		r.Meter.Outcome(o)
	}
	if _, err := r.Ledger.Append(done...); err != nil {
		// The intents are there: the next pass, or the next start, finds out from the disk.
		r.fail(rep, "cannot write outcomes to the ledger; they are settled at the next look: "+err.Error())
	}
	rep.Outcomes = append(rep.Outcomes, outs...)
	r.learn(outs, now.Boot)
	return outs
}

// scanTaken looks at the mounts of all namespaces once more, now that no path leads to
// what was taken. A mount that came between look and rename was carried along: such a
// pod, or what lay in its leaf, goes back, and a scan that failed counts as a hit.
func (r *Reaper) scanTaken(ctx context.Context, rep *Report, taken []policy.Outcome) {
	if len(taken) == 0 {
		return
	}
	uids := make([]parsers.PodUID, len(taken))
	for i, o := range taken {
		uids[i] = o.Action.UID
	}
	facts := r.Prober.Mounts(ctx, uids)
	var back []policy.Action
	for _, o := range taken {
		if f := facts[o.Action.UID]; f.Truth != policy.No {
			back = append(back, policy.Back(o, f))
		}
	}
	for _, plan := range policy.Batches(back) {
		// The pods go back even when the daemon is told to stop.
		outs := r.execute(context.WithoutCancel(ctx), rep, plan)
		if i := slices.IndexFunc(outs, func(o policy.Outcome) bool { return o.Conflict != "" }); i >= 0 {
			// Made again within the moment in which it was parked: it lived.
			a := outs[i].Action
			r.stop(rep, policy.Record{UID: a.UID, Namespace: a.Evidence.Namespace, PodName: a.Evidence.PodName, Why: outs[i].Why})
		}
	}
}

// recover settles the intents whose outcome is not in the ledger, from what is on disk: a
// crash, or a ledger that could not be written. Stripping and purging are finished by the
// pass itself, since only a look may say that nothing is mounted.
//
// What cannot be settled now stays as it is and is told; the other pods are served.
func (r *Reaper) recover(ctx context.Context) (problems []string, outs []policy.Outcome) {
	if r.Rules.Observe {
		return nil, nil
	}
	var again []policy.Action
	var settled []policy.Record
	now := r.Clock.Now()
	for _, e := range entries(r.Ledger.Entries()) {
		if !e.Phase.Intent() || r.tooSoon(e.Entry, now.Boot) {
			continue
		}
		_, inQuarantine, err := r.Remover.Where(e.UID, e.Entry)
		if err != nil {
			problems = append(problems, "cannot find out what became of "+e.Entry+": "+err.Error())
			continue
		}
		rec, action := policy.Recover(e, inQuarantine, now)
		if rec != nil {
			settled = append(settled, *rec)
		}
		if action != nil {
			again = append(again, *action)
		}
	}
	if len(settled) > 0 {
		if _, err := r.Ledger.Append(settled...); err != nil {
			return append(problems, "cannot write to the ledger what became of earlier plans: "+err.Error()), nil
		}
	}
	var rep Report
	for _, plan := range policy.Batches(again) {
		r.execute(ctx, &rep, plan)
	}
	return append(problems, rep.Look.Errors...), rep.Outcomes
}

func (r *Reaper) fail(rep *Report, text string) {
	rep.Look.Errors = append(rep.Look.Errors, text)
	r.Log.Error("the pass was cut short", slog.String("error", text))
}

// manifest is what lies beside a quarantine entry, for a person who has lost our state
// directory.
func manifest(r policy.Record) []byte {
	about := "The directory beside this file was pods/" + string(r.UID) + " of the kubelet; orphan-reaper moved it here. "
	if r.Leaf != "" {
		about = "The directory beside this file holds what lay in pods/" + string(r.UID) + "/" + r.Leaf +
			" of the kubelet, below the same path; orphan-reaper moved it here, and nothing else of the pod. "
	}
	b, err := json.MarshalIndent(struct {
		About string `json:"about"`
		policy.Record
	}{about + "Move it back with: " + r.Undo, r}, "", "  ")
	if err != nil {
		return []byte("{}\n")
	}
	return append(b, '\n')
}
