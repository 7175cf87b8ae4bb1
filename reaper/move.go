package reaper

import (
	"context"
	"maps"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// move moves the planned pods to quarantine, in batches: intent, recheck, rename, result, recheck.
func (p *pass) move(ctx context.Context) {
	moves := p.decided.Plan.Moves
	if p.opt.NoMoves {
		return
	}
	for len(moves) > 0 && ctx.Err() == nil {
		batch := moves[:min(mostMoves, len(moves))]
		moves = moves[len(batch):]
		if !p.moveBatch(ctx, batch) {
			return
		}
	}
}

// moveBatch returns false if no more pods may be moved in this pass.
func (p *pass) moveBatch(ctx context.Context, batch []judge.Move) bool {
	now := p.Clock.Now()
	for i := range batch {
		batch[i].Entry = entryName(batch[i].UID, now, p.Ledger.Entries())
	}
	if !p.write(intents(batch, p.node, now)...) {
		return false
	}
	p.old = true
	still, withdrawn := p.recheck(ctx, batch)
	if !p.write(results(withdrawn, p.node, p.Clock.Now())...) {
		return false // the next pass finds by the intents that nothing was moved
	}
	permit := p.permit()
	if len(still) == 0 || !permit.MayRemove() {
		return p.write(results(refuse(still, "the gate was shut"), p.node, p.Clock.Now())...) && permit.MayRemove()
	}
	bounded, cancel := context.WithTimeout(ctx, recheckAge)
	outcomes := p.Disk.Execute(bounded, permit, still)
	cancel()
	p.noteRefused(outcomes)
	for _, o := range outcomes {
		p.now = p.now || o.Result == judge.Failed // it may have been moved: the next pass finds that, and judges the pod
	}
	// The results are written first, so that whatever happens now, the pods are judged as quarantined ones. The second
	// question is asked also if the daemon has to stop: a living pod would stay in quarantine until the next start.
	written := p.write(results(outcomes, p.node, p.Clock.Now())...)
	return p.recheckMoved(ctx, outcomes) && written
}

// forgetRefused is how long after its last try a refused move is forgotten: longer than the longest time between two.
const forgetRefused = 24 * time.Hour

// noteRefused remembers the moves that the disk refused, and forgets those of long ago.
func (p *pass) noteRefused(outcomes []judge.Outcome) {
	now := p.Clock.Now()
	maps.DeleteFunc(p.refused, func(_ parsers.PodUID, r judge.Refusal) bool { return now.Age(r.At) > forgetRefused })
	for _, o := range outcomes {
		if (o.Result == judge.Refused || o.Result == judge.Failed) && !o.Stopped {
			if p.refused == nil {
				p.refused = map[parsers.PodUID]judge.Refusal{}
			}
			p.refused[o.Move.UID] = judge.Refusal{At: now, Err: o.Err, Times: p.refused[o.Move.UID].Times + 1}
		}
	}
}

// recheck judges the pods again on a fresh scan, right before the rename. It returns those that are still dead, and the
// outcomes of the others.
func (p *pass) recheck(ctx context.Context, batch []judge.Move) (still []judge.Move, withdrawn []judge.Outcome) {
	fresh := p.Scanner.Scan(ctx, uidsOf(batch), nil)
	p.node = fresh.Node
	in := p.input(fresh)
	in.Entries = nil
	planned := map[parsers.PodUID]bool{}
	d := decide(ctx, in)
	maps.Copy(p.holds, d.Holds) // what this scan has seen counts, too: a pod that showed itself begins its hold again
	for _, m := range d.Plan.Moves {
		planned[m.UID] = true
	}
	for _, m := range batch {
		if planned[m.UID] { // the same directory: another one begins a hold of its own
			still = append(still, m)
			continue
		}
		why := "it is no longer the directory that was judged"
		for _, j := range d.Pods {
			if j.UID == m.UID && len(j.Reasons) > 0 {
				m.Reasons, why = j.Reasons, string(j.Reasons[0].Reason)+": "+j.Reasons[0].Detail
			}
		}
		withdrawn = append(withdrawn, judge.Outcome{Move: m, Result: judge.Refused, Err: why})
	}
	return still, withdrawn
}

// recheckMoved asks right after the move whether a pod is alive, and restores it at once. It returns false if one was.
func (p *pass) recheckMoved(ctx context.Context, outcomes []judge.Outcome) bool {
	var moved []parsers.PodUID
	for _, o := range outcomes {
		if o.Result == judge.Done {
			moved = append(moved, o.Move.UID)
			delete(p.holds, o.Move.UID) // if it is restored, nothing of what was seen before counts
		}
	}
	if len(moved) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recheckTime)
	defer cancel()
	fresh := p.Scanner.Scan(ctx, moved, moved)
	p.node = fresh.Node
	p.snapshot = p.snapshot.With(fresh)
	in := p.input(fresh)
	plan := decide(ctx, in).Plan
	p.write(conflicts(plan.Conflicts, p.node, p.Clock.Now())...)
	p.restore(ctx, plan.Restores, plan.Breaker)
	return len(plan.Restores)+len(plan.Conflicts) == 0
}

// restore moves living pods back: the intents and the breaker are written first, together. It returns false if these or the
// results could not be written: then nothing else may be changed either.
func (p *pass) restore(ctx context.Context, moves, breaker []judge.Move) bool {
	permit := p.permit()
	if len(moves) == 0 || !permit.MayRestore() {
		return true
	}
	now := p.Clock.Now()
	events := intents(moves, p.node, now)
	if _, open := p.Ledger.Breaker(); !open && len(breaker) > 0 {
		events = append([]judge.Event{breakerEvent(breaker[0], p.node, now)}, events...)
	}
	if !p.write(events...) {
		return false
	}
	p.now = true // the next scan shows where the pods are
	return p.write(results(p.Disk.Execute(ctx, permit, moves), p.node, p.Clock.Now())...)
}

// recover closes the intents that have no result, by where the directory is. Cleans and purges of what is still there go on
// after the scan. It returns false if a result could not be written: then nothing may be changed.
func (p *pass) recover() bool {
	written := true
	for name, e := range p.Ledger.Entries() {
		removes := e.Phase == judge.Cleaning || e.Phase == judge.Purging
		if !removes && e.Phase != judge.Moving && e.Phase != judge.Restoring {
			continue
		}
		inPods, inQuarantine, err := p.Disk.Where(e.UID, name)
		if err != nil {
			p.fail("cannot find out what became of "+name, err)
			continue
		}
		if removes && inQuarantine != (judge.FileID{}) {
			continue
		}
		r := recovered(name, e, inPods, inQuarantine, p.Clock.Now())
		if r.Kind == judge.EventRestored && r.Other == "" { // an exchange may have given the pod's other directory a name already
			if _, other, err := p.Disk.Where(e.UID, name+judge.OtherSuffix); err == nil && other != (judge.FileID{}) {
				r.Other, r.OtherID = name+judge.OtherSuffix, other
			}
		}
		written = p.write(r) && written
	}
	return written
}

// recovered returns the result of an intent that has none, by where the directory is.
func recovered(name string, e judge.Entry, inPods, inQuarantine judge.FileID, now judge.Instant) judge.Event {
	r := judge.Event{At: now, UID: e.UID, Namespace: e.Namespace, PodName: e.PodName, Static: e.Static, Entry: name, ID: e.ID, By: e.By}
	there := e.ID.Same(inQuarantine)
	switch {
	case e.Phase == judge.Cleaning, e.Phase == judge.Purging:
		r.Kind = judge.EventRemoved
	case e.Phase == judge.Moving && inQuarantine != (judge.FileID{}):
		// Killed right after the rename, it may be a directory that took the place of the judged one: it is judged as moved, so
		// that a living one is restored.
		r.Kind, r.ID = judge.EventQuarantined, inQuarantine
	case e.Phase == judge.Moving:
		r.Kind = judge.EventNotMoved
	case there: // it was not restored: it is judged again
		r.Kind = judge.EventNotRestored
	case e.ID.Same(inPods):
		r.Kind, r.Operator = judge.EventRestored, e.Ordered
	default:
		r.Kind, r.Err, r.Lost = judge.EventFailed, lost, true
	}
	if r.Kind == judge.EventRestored && inQuarantine != (judge.FileID{}) { // an exchange: this is the pod's other directory
		r.Other, r.OtherID = name, inQuarantine
	}
	return r
}
