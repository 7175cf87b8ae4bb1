package reaper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// carryOut carries out the plan: what is in quarantine first, then what is new, with the last question before and after
// each batch of it. Nothing new is moved where the breaker is open, by this look or by an outcome.
func (r *Reaper) carryOut(ctx context.Context, rep *Report, plan decide.Plan) {
	if r.Remover == nil {
		return
	}
	r.writeSeen(rep, plan)
	if !r.carryOutParked(ctx, rep, slices.Concat(r.batches(plan.Undo), r.batches(plan.Remove))) || r.stopped() {
		return
	}
	if plan.Proving && !r.memory.Proven { // the first pod has not been confirmed dead after all, so no other follows it
		return
	}
	r.parkAndClear(ctx, rep, r.batches(plan.Moves))
}

// carryOutParked takes further what lies in quarantine, after one more scan of the mounts for what is
// removed. It reports whether the ledger could be written.
func (r *Reaper) carryOutParked(ctx context.Context, rep *Report, batches []policy.Batch) bool {
	for _, batch := range batches {
		if removes := uidsOf(batch.Actions, policy.Action.Removes); len(removes) > 0 {
			batch = batch.Unmounted(r.Prober.Mounts(ctx, removes))
		}
		if len(batch.Actions) == 0 {
			continue
		}
		if outs := r.execute(ctx, rep, batch); outs == nil {
			return false
		}
	}
	return true
}

// putBackTime is how long pods that live right after a rename may take to go back.
const putBackTime = 30 * time.Second

// parkAndClear moves what is new, batch by batch, and puts back at once what lives by the same question as before
// the rename.
func (r *Reaper) parkAndClear(ctx context.Context, rep *Report, batches []policy.Batch) {
	for _, batch := range batches {
		at := r.Clock.Now()
		outs := r.execute(ctx, rep, batch)
		moved := slices.DeleteFunc(slices.Clone(outs), func(o policy.Outcome) bool { return !o.Moved() })
		if len(moved) > 0 {
			// The pods go back even when the daemon must stop, but a file system that hangs does not keep it.
			// The intent of what does not go back in time is in the ledger: the next start puts it back.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
			for _, back := range r.batches(policy.PutBacks(moved, r.Prober.Still(ctx, batch.LastAsked()), at)) {
				r.execute(ctx, rep, back)
			}
			cancel()
		}
		if outs == nil || r.stopped() {
			return
		}
	}
}

// batches cuts actions into batches of at most BatchSize.
func (r *Reaper) batches(actions []policy.Action) []policy.Batch {
	var batches []policy.Batch
	for batch := range slices.Chunk(actions, cmp.Or(r.BatchSize, policy.BatchSize)) {
		batches = append(batches, policy.Batch{Actions: batch})
	}
	return batches
}

func uidsOf(actions []policy.Action, as func(policy.Action) bool) []parsers.PodUID {
	var uids []parsers.PodUID
	for _, a := range actions {
		if as(a) {
			uids = append(uids, a.UID)
		}
	}
	return uids
}

// execute writes the intents of one batch to the ledger, carries it out, and writes the outcomes. It leaves out what the gate
// forbids by now. It returns nil if the intents could not be written: then nothing is done.
func (r *Reaper) execute(ctx context.Context, rep *Report, batch policy.Batch) []policy.Outcome {
	permit := r.permit(rep)
	batch.Actions = slices.DeleteFunc(slices.Clone(batch.Actions), func(a policy.Action) bool { return !permit.Allows(a) })
	if len(batch.Actions) == 0 {
		return []policy.Outcome{}
	}
	if err := r.rememberQuarantine(batch); err != nil {
		r.fail(rep, "cannot remember where the quarantine is, so nothing is moved there: "+err.Error())
		return nil
	}
	now := r.Clock.Now()
	intents := make([]policy.Record, 0, len(batch.Actions))
	begun := make([]policy.Outcome, 0, len(batch.Actions))
	for i := range batch.Actions {
		a := &batch.Actions[i]
		rec := policy.Intent(*a, rep.Look.Node, now)
		intents, begun = append(intents, rec), append(begun, policy.Outcome{Action: *a, Why: a.Why})
		if a.Kind == policy.Park || a.Kind == policy.Clear {
			a.Manifest = manifest(rec)
		}
	}
	if err := r.write(append(r.misjudged(begun), intents...)...); err != nil {
		r.fail(rep, "cannot write to the ledger, so nothing is done: "+err.Error())
		return nil
	}
	r.doing.Store(fmt.Sprintf("%s of %d, the first is pod %s", batch.Actions[0].Kind, len(batch.Actions), batch.Actions[0].UID))
	outs := r.ask(ctx, rep, &batch)
	if len(batch.Actions) > 0 {
		outs = append(outs, r.Remover.Execute(ctx, permit, batch)...)
		if err := r.rememberQuarantine(batch); err != nil { // the next pass tries again, by what lies there
			r.Log.WarnContext(ctx, "cannot remember which directory the quarantine is", slog.Any("error", err))
		}
	}
	now = r.Clock.Now()
	var done []policy.Record
	for i, o := range outs {
		outs[i].Action.Manifest = nil // it is on the disk
		done = append(done, policy.Recorded(o, rep.Look.Node, now)...)
		r.Meter.Outcome(o)
	}
	if err := r.write(append(r.misjudged(outs), done...)...); err != nil {
		// The intents are there: the next pass, or the next start, finds out from the disk.
		r.fail(rep, "cannot write outcomes to the ledger; the next look finds them on disk: "+err.Error())
	}
	rep.Outcomes = append(rep.Outcomes, outs...)
	r.memory.Ended(outs, now)
	return outs
}

// ask asks the last question about what the batch is to move out of the pods directory. It removes the actions from the
// batch whose pods are no longer known to be dead, and returns their outcomes.
func (r *Reaper) ask(ctx context.Context, rep *Report, batch *policy.Batch) (withdrawn []policy.Outcome) {
	pods := batch.LastAsked()
	if len(pods) == 0 {
		return nil
	}
	*batch, withdrawn = batch.StillDead(r.Prober.Still(ctx, pods), rep.Look.Node, r.Rules)
	return withdrawn
}

// recover closes the intents whose outcome is not in the ledger, by what is on disk: after a crash, or if the ledger could
// not be written. The pass itself finishes stripping and purging, since only a look shows that nothing is mounted. An
// action that ends an intent takes a look at the node first: see endCutOff.
func (r *Reaper) recover() (cut cutOff) {
	if r.Rules.Observe || r.Remover == nil {
		return cut
	}
	var closed []policy.Record
	now := r.Clock.Now()
	for _, e := range policy.Listed(r.Ledger.Entries()) {
		if !e.Phase.Intent() || r.memory.TooSoon(e.Entry, now) {
			continue
		}
		_, inQuarantine, err := r.Remover.Where(e.UID, e.Entry)
		if err != nil {
			cut.problems = append(cut.problems, "cannot find out what became of "+e.Entry+": "+err.Error())
			continue
		}
		rec, action := policy.Recover(e, inQuarantine, now)
		if rec != nil {
			closed = append(closed, *rec)
		}
		if action != nil {
			cut.again = append(cut.again, *action)
		}
	}
	if len(closed) > 0 {
		if err := r.write(closed...); err != nil {
			return cutOff{problems: append(cut.problems, "cannot write to the ledger what became of earlier plans: "+err.Error())}
		}
		cut.closed = true
	}
	return cut
}

// cutOff is what recover found of plans that a crash cut short.
type cutOff struct {
	problems []string
	again    []policy.Action // that end an intent
	closed   bool            // some intents were closed without an action
}

// endCutOff carries out what recover found, as far as the gate allows, and returns how it ended.
func (r *Reaper) endCutOff(ctx context.Context, rep *Report, cut cutOff) []policy.Outcome {
	if permit := r.permit(rep); cut.closed && permit.Undoes() {
		r.Remover.Execute(ctx, permit, policy.Batch{}) // what was never moved may have left its manifest
	}
	own := Report{Look: policy.Look{Node: rep.Look.Node}, byPerson: rep.byPerson}
	for _, batch := range r.batches(cut.again) {
		r.execute(ctx, &own, batch)
	}
	rep.Look.Errors = append(rep.Look.Errors, own.Look.Errors...)
	return own.Outcomes
}

// permit asks the gate by what is known now: a batch before this one may have opened the breaker.
func (r *Reaper) permit(rep *Report) policy.Permit {
	return policy.Standing{Node: rep.Look.Node, Breaker: r.stopped(), Rules: r.Rules, ByPerson: rep.byPerson}.Gate()
}

func (r *Reaper) fail(rep *Report, text string) {
	rep.Look.Errors = append(rep.Look.Errors, text)
	r.Log.Error("the pass was cut short", slog.String("error", text))
}

// manifest is the file beside a quarantine entry, for an operator without our state directory.
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
