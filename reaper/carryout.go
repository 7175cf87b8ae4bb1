package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// carryOut carries out the plan: what is in quarantine first, then what is new, and one mount scan
// for all that was moved. The runtime comes last, since it may take minutes, and what is parked was
// judged, and must be scanned, before that. Decide has left out what is new where a parked pod lives.
func (r *Reaper) carryOut(ctx context.Context, rep *Report, plan decide.Plan) {
	if r.Remover == nil {
		return
	}
	r.writeSeen(rep, plan)
	if !r.carryOutParked(ctx, rep, plan.Parked) || r.stopped() {
		return
	}
	if plan.Proving && !r.memory.Proven { // the first pod has not proved dead after all, so no other follows it
		return
	}
	r.parkAndClear(ctx, rep, plan.Moves)
	for _, batch := range plan.Sandboxes {
		if r.stopped() { // what was just moved has turned out to live
			return
		}
		outs := r.execute(ctx, rep, batch)
		if outs == nil || slices.ContainsFunc(outs, policy.Outcome.NotBegun) {
			return
		}
	}
}

// carryOutParked takes further what lies in quarantine, after one more scan of the mounts for what is
// removed. It reports whether the ledger could be written.
func (r *Reaper) carryOutParked(ctx context.Context, rep *Report, batches []policy.Batch) bool {
	for _, batch := range batches {
		if r.stopped() { // a batch before this one may have shown that a pod lives
			batch.Actions = decide.Undoing(batch.Actions)
		}
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

// parkAndClear moves what is new, and then scans the mounts of all namespaces once more for all that
// was moved.
func (r *Reaper) parkAndClear(ctx context.Context, rep *Report, batches []policy.Batch) {
	var moved []policy.Outcome
	for _, batch := range batches {
		outs := r.execute(ctx, rep, batch)
		moved = append(moved, slices.DeleteFunc(outs, func(o policy.Outcome) bool { return !o.Moved() })...)
		if outs == nil || r.stopped() {
			break
		}
	}
	if len(moved) == 0 {
		return
	}
	var uids []parsers.PodUID
	for _, o := range moved {
		uids = append(uids, o.Action.UID)
	}
	for _, batch := range policy.PutBacks(moved, r.Prober.Mounts(ctx, uids)) {
		// The pods go back even when the daemon is told to stop.
		r.execute(context.WithoutCancel(ctx), rep, batch)
	}
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

// execute writes the intents of one batch to the ledger, carries it out, and writes down how
// it ended. It returns nil where the intents could not be written: then nothing is done.
func (r *Reaper) execute(ctx context.Context, rep *Report, batch policy.Batch) []policy.Outcome {
	if err := r.rememberQuarantine(batch); err != nil {
		r.fail(rep, "cannot remember where the quarantine is, so nothing is moved there: "+err.Error())
		return nil
	}
	now := r.Clock.Now()
	began := now.Boot
	intents := make([]policy.Record, 0, len(batch.Actions))
	for i := range batch.Actions {
		a := &batch.Actions[i]
		rec := policy.Intent(*a, rep.Look.Node, now)
		intents = append(intents, rec)
		if a.Kind == policy.Park || a.Kind == policy.Clear {
			a.Manifest = manifest(rec)
		}
	}
	if err := r.write(intents...); err != nil {
		r.fail(rep, "cannot write to the ledger, so nothing is done: "+err.Error())
		return nil
	}
	r.doing.Store(fmt.Sprintf("%s of %d, the first is pod %s", batch.Actions[0].Kind, len(batch.Actions), batch.Actions[0].UID))
	outs := r.Remover.Execute(ctx, batch)
	now = r.Clock.Now()
	rep.Batches = append(rep.Batches, Batch{policy.Timing{Name: string(batch.Actions[0].Kind), Begin: began, End: now.Boot}, outs})
	var done []policy.Record
	for _, o := range outs {
		done = append(done, policy.Recorded(o, rep.Look.Node, now)...)
		r.Meter.Outcome(o)
	}
	done = append(done, r.livesAfterAll(outs)...)
	if err := r.write(done...); err != nil {
		// The intents are there: the next pass, or the next start, finds out from the disk.
		r.fail(rep, "cannot write outcomes to the ledger; the next look finds them on disk: "+err.Error())
	}
	rep.Outcomes = append(rep.Outcomes, outs...)
	r.memory.Ended(outs, now)
	return outs
}

// recover closes the intents whose outcome is not in the ledger, by what is on disk: a
// crash, or a ledger that could not be written. Stripping and purging are finished by the
// pass itself, since only a look may say that nothing is mounted.
//
// What cannot be closed now stays as it is and is told; the other pods are served.
func (r *Reaper) recover(ctx context.Context) (problems []string, outs []policy.Outcome) {
	if r.Rules.Observe {
		return nil, nil
	}
	var again []policy.Action
	var closed []policy.Record
	now := r.Clock.Now()
	for _, e := range policy.Listed(r.Ledger.Entries()) {
		if !e.Phase.Intent() || r.memory.TooSoon(e.Entry, now) {
			continue
		}
		_, inQuarantine, err := r.Remover.Where(e.UID, e.Entry)
		if err != nil {
			problems = append(problems, "cannot find out what became of "+e.Entry+": "+err.Error())
			continue
		}
		rec, action := policy.Recover(e, inQuarantine, now)
		if rec != nil {
			closed = append(closed, *rec)
		}
		if action != nil {
			again = append(again, *action)
		}
	}
	if len(closed) > 0 {
		if err := r.write(closed...); err != nil {
			return append(problems, "cannot write to the ledger what became of earlier plans: "+err.Error()), nil
		}
		r.Remover.Execute(ctx, policy.Batch{}) // what was never moved may have left its manifest
	}
	var rep Report
	for _, batch := range policy.Batches(again) {
		r.execute(ctx, &rep, batch)
	}
	return append(problems, rep.Look.Errors...), rep.Outcomes
}

func (r *Reaper) fail(rep *Report, text string) {
	rep.Look.Errors = append(rep.Look.Errors, text)
	r.Log.Error("the pass was cut short", slog.String("error", text))
}
