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

// carryOut carries out the plan: first for what lies in quarantine, then the moves out of the pods directory. Each batch of
// moves has the last question before and after it. Once the breaker is open, by this look or by an outcome, the gate lets nothing
// more be moved.
func (r *Reaper) carryOut(ctx context.Context, rep *Report, plan decide.Plan) {
	if r.Remover == nil {
		return
	}
	r.writeLiving(rep, plan)
	if !r.carryOutParked(ctx, rep, slices.Concat(r.batches(plan.Undo), r.batches(plan.Remove))) {
		return
	}
	r.parkAndClear(ctx, rep, r.batches(plan.Moves))
}

// carryOutParked carries out batches for what lies in quarantine. It scans the mounts once more before it removes anything.
// It reports whether the ledger could be written.
func (r *Reaper) carryOutParked(ctx context.Context, rep *Report, batches []policy.Batch) bool {
	for _, batch := range batches {
		if removes := removedPods(batch.Actions); len(removes) > 0 {
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

// putBackTime bounds the put-backs right after a move.
const putBackTime = 30 * time.Second

// parkAndClear carries out the moves, batch by batch. After each it repeats the last question, and puts back at once the pods
// that live.
func (r *Reaper) parkAndClear(ctx context.Context, rep *Report, batches []policy.Batch) {
	for _, batch := range batches {
		outs := r.execute(ctx, rep, batch)
		moved := slices.DeleteFunc(slices.Clone(outs), func(o policy.Outcome) bool { return !o.Moved() })
		if len(moved) > 0 {
			// The pods go back even if the daemon must stop, though a file system that hangs cannot delay it for longer.
			// The ledger has the intents: the next start puts back the rest.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
			for _, back := range r.batches(policy.PutBacks(moved, r.Prober.Still(ctx, batch.LastAsked()))) {
				r.execute(ctx, rep, back)
			}
			cancel()
		}
		if outs == nil {
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

func removedPods(actions []policy.Action) []parsers.PodUID {
	var uids []parsers.PodUID
	for _, a := range actions {
		if a.Removes() {
			uids = append(uids, a.UID)
		}
	}
	return uids
}

// execute writes the intents of one batch to the ledger, carries it out, and writes the outcomes. It leaves out actions that
// the gate forbids now. It returns nil if the intents could not be written: then nothing is done.
func (r *Reaper) execute(ctx context.Context, rep *Report, batch policy.Batch) []policy.Outcome {
	permit := r.permit(rep)
	batch.Actions = slices.DeleteFunc(slices.Clone(batch.Actions), func(a policy.Action) bool { return !permit.Allows(a) })
	if len(batch.Actions) == 0 {
		return []policy.Outcome{}
	}
	if err := r.rememberQuarantine(batch); err != nil {
		r.fail(rep, "cannot save where the quarantine is, so nothing is moved there: "+err.Error())
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
	if err := r.write(append(r.breakerRecord(begun), intents...)...); err != nil {
		r.fail(rep, "cannot write to the ledger, so nothing is done: "+err.Error())
		rep.undone = true
		return nil
	}
	r.doing.Store(fmt.Sprintf("%s of %d, the first is pod %s", batch.Actions[0].Kind, len(batch.Actions), batch.Actions[0].UID))
	outs := r.ask(ctx, rep, &batch)
	if len(batch.Actions) > 0 {
		at := r.Clock.Now() // the last question may have taken seconds, in which a sandbox was made
		for _, o := range r.Remover.Execute(ctx, permit, batch) {
			o.At = at
			outs = append(outs, o)
		}
		if err := r.rememberQuarantine(batch); err != nil { // the next pass finds out from the entries
			r.Log.WarnContext(ctx, "cannot save which directory the quarantine is", slog.Any("error", err))
		}
	}
	now = r.Clock.Now()
	var done []policy.Record
	for i, o := range outs {
		outs[i].Action.Manifest = nil // it is on the disk
		done = append(done, policy.Recorded(o, rep.Look.Node, now)...)
		r.Meter.Outcome(o)
	}
	if err := r.write(append(r.breakerRecord(outs), done...)...); err != nil {
		r.fail(rep, "cannot write outcomes to the ledger; the next look finds them on disk: "+err.Error())
	}
	rep.Outcomes = append(rep.Outcomes, outs...)
	r.memory.Ended(outs, now)
	return outs
}

// ask asks the last question about the pods that the batch moves out of the pods directory. It withdraws the actions on pods
// that are no longer proved dead, and returns their outcomes.
func (r *Reaper) ask(ctx context.Context, rep *Report, batch *policy.Batch) (withdrawn []policy.Outcome) {
	pods := batch.LastAsked()
	if len(pods) == 0 {
		return nil
	}
	*batch, withdrawn = batch.StillDead(r.Prober.Still(ctx, pods), rep.Look.Node, r.Rules)
	return withdrawn
}

// recover closes the intents that have no outcome in the ledger, after a crash or a failed write: it compares them with the
// disk. An intent that needs an action is left to endCutOff, after the look. Stripping and purging are left to the pass, since
// only a look shows that nothing is mounted.
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

// endCutOff carries out the actions of recover that the gate allows, and returns their outcomes.
func (r *Reaper) endCutOff(ctx context.Context, rep *Report, cut cutOff) []policy.Outcome {
	if permit := r.permit(rep); cut.closed && permit.Undoes() {
		r.Remover.Execute(ctx, permit, policy.Batch{}) // removes the manifests of pods that were never moved
	}
	own := Report{Look: policy.Look{Node: rep.Look.Node}, byOperator: rep.byOperator}
	for _, batch := range r.batches(cut.again) {
		r.execute(ctx, &own, batch)
	}
	rep.Look.Errors = append(rep.Look.Errors, own.Look.Errors...)
	return own.Outcomes
}

// permit asks the gate before each batch, since the batch before it may have opened the breaker.
func (r *Reaper) permit(rep *Report) policy.Permit {
	return policy.Standing{Node: rep.Look.Node, Breaker: r.stopped(), Rules: r.Rules, ByPerson: rep.byOperator}.Gate()
}

func (r *Reaper) fail(rep *Report, text string) {
	rep.Look.Errors = append(rep.Look.Errors, text)
	r.Log.Error("the pass was cut short", slog.String("error", text))
}

// manifest returns the file beside a quarantine entry, for an operator without our state directory.
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
