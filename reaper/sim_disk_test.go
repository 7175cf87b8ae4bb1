package reaper_test

import (
	"context"
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// disk changes the node's directories as package quarantine does: by identity, one rename or removal after the other. The
// world goes on in between, and each may be the last one.
type disk struct{ *node }

func refused(m judge.Move, why string) judge.Outcome {
	return judge.Outcome{Move: m, Result: judge.Refused, Err: why}
}

func done(m judge.Move, id judge.FileID) judge.Outcome {
	return judge.Outcome{Move: m, Result: judge.Done, ID: id}
}

// change is the moment before one change of the disk.
func (k disk) change(s step, uid parsers.PodUID) bool {
	k.pass(k.between(0, 20*time.Millisecond))
	if k.faults[changesStuck] > 0 && k.oneIn(3) {
		k.trouble = k.now
		k.pass(k.between(0, 5*time.Minute))
		k.trouble = k.now
	}
	k.reach(s, uid)
	if k.faults[changesFail] > 0 && k.oneIn(2) {
		k.trouble = k.now
		return false
	}
	k.unsynced = append(k.unsynced, k.tree.copied())
	return true
}

// Execute is reaper.Disk's. What it returns is synced.
func (k disk) Execute(ctx context.Context, permit judge.Permit, moves []judge.Move) (outcomes []judge.Outcome) {
	for _, m := range moves {
		var o judge.Outcome
		back := m.Action == judge.Restore || m.Action == judge.Exchange
		switch {
		case back && !permit.MayRestore(), !back && !permit.MayRemove():
			o = refused(m, "no permit")
		case ctx.Err() != nil:
			o = refused(m, "the program ends")
			o.Stopped = true
		default:
			k.oracle.begins(k.node, m)
			o = k.one(ctx, m)
		}
		k.tell("%s of %s: %s %s", m.Action, k.byUID[m.UID], o.Result, o.Err)
		outcomes = append(outcomes, o)
	}
	k.unsynced = nil
	return outcomes
}

func (k disk) one(ctx context.Context, m judge.Move) judge.Outcome {
	switch m.Action {
	case judge.Quarantine:
		return k.quarantineOne(m)
	case judge.Restore, judge.Exchange:
		return k.restore(m)
	case judge.Clean, judge.Purge:
		return k.remove(ctx, m)
	case judge.Leave:
	}
	panic(m.Action)
}

func (k disk) quarantineOne(m judge.Move) judge.Outcome {
	if !k.change(stepRename, m.UID) {
		return refused(m, "operation not permitted")
	}
	d := k.dirs[m.UID]
	switch {
	case d == nil:
		return judge.Outcome{Move: m, Result: judge.Gone}
	case d.id != m.ID:
		return refused(m, "another directory has its name now")
	}
	k.oracle.moves(k.node, d, m)
	if p := k.byUID[m.UID]; p.publishing == d.id.Ino {
		p.publishing = 0 // no scan could show it any more: it goes on in quarantine
	}
	delete(k.dirs, m.UID)
	k.quarantine[m.Entry], d.entry, d.moved, d.movedIn = d, m.Entry, k.now, k.boots
	k.reach(stepMoved, m.UID)
	return done(m, d.id)
}

func (k disk) restore(m judge.Move) judge.Outcome {
	if !k.change(stepRename, m.UID) {
		return refused(m, "operation not permitted")
	}
	q, d := k.quarantine[m.Entry], k.dirs[m.UID]
	switch {
	case q == nil && d != nil && d.id.Same(m.ID): // by one that was killed
		return done(m, d.id)
	case q == nil:
		return judge.Outcome{Move: m, Result: judge.Gone}
	case !q.id.Same(m.ID):
		return refused(m, "another directory has its name now")
	}
	o := done(m, q.id)
	if d != nil {
		if m.Action == judge.Restore || !d.bare() && !m.Replace || len(d.mounts) > 0 {
			return judge.Outcome{Move: m, Result: judge.Conflict, ID: q.id, Err: "the pod has another directory"}
		}
		k.oracle.exchanges(k.node, d, m)
		if m.Replace {
			k.byUID[m.UID].publishing = 0 // by an operator's order it goes on in quarantine
			o.Other, o.OtherID = m.Entry+".new", d.id
			k.quarantine[o.Other], d.entry, d.moved, d.movedIn = d, o.Other, k.now, k.boots
		}
	}
	delete(k.quarantine, m.Entry)
	k.dirs[m.UID], q.entry = q, ""
	k.touch(q, false)
	k.reach(stepMoved, m.UID)
	return o
}

// remove removes one class after the other.
func (k disk) remove(ctx context.Context, m judge.Move) judge.Outcome {
	o := judge.Outcome{Move: m, Result: judge.Done}
	d := k.quarantine[m.Entry]
	switch {
	case d == nil:
		return judge.Outcome{Move: m, Result: judge.Gone}
	case !d.id.Same(m.ID):
		return refused(m, "another directory has its name now")
	}
	o.ID = d.id
	for class := content.Data; class <= content.Skeleton; class++ {
		if d.has[class] == 0 {
			continue
		}
		if !m.Remove.Has(class) {
			o.Left = append(o.Left, judge.Residue{Path: fmt.Sprintf("volumes/%s", class), Class: class})
			continue
		}
		if ctx.Err() != nil {
			return judge.Outcome{Move: m, Result: judge.Failed, ID: d.id, Err: ctx.Err().Error(), Stopped: true}
		}
		if !k.change(stepRemove, m.UID) {
			return judge.Outcome{Move: m, Result: judge.Failed, ID: d.id, Err: "input/output error"}
		}
		if len(d.mounts) > 0 { // the kernel stops there
			return judge.Outcome{Move: m, Result: judge.Failed, ID: d.id, Err: "invalid cross-device link"}
		}
		k.oracle.removes(k.node, d, m, class)
		d.has[class] = 0
	}
	if d.confirmed == 0 {
		d.confirmed = k.now
	}
	if len(o.Left) > 0 {
		o.Result = judge.Partly
		return o
	}
	delete(k.quarantine, m.Entry)
	return o
}

// Where is reaper.Disk's.
func (k disk) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine judge.FileID, err error) {
	if d := k.dirs[uid]; d != nil {
		inPods = d.id
	}
	if d := k.quarantine[entry]; d != nil {
		inQuarantine = d.id
	}
	return inPods, inQuarantine, nil
}

func (disk) Movable() error                 { return nil }
func (disk) Make(judge.Permit) error        { return nil }
func (disk) Stuck() (string, time.Duration) { return "", 0 }
