package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// remover changes the node's directories as reaper/removal does: by identity, one rename or unlink after the other, with the world going on
// in between and an end of the program at each.
type remover struct{ *node }

var _ reaper.Remover = remover{}

func refuse(a policy.Action, reason policy.Reason, why string) policy.Outcome {
	return policy.Outcome{Action: a, Result: policy.Refused, Err: why, Why: []policy.Why{{Reason: reason, Detail: why}}}
}

// change is the moment before one change of the disk.
func (m remover) change(step step, uid parsers.PodUID) bool {
	m.pass(m.between(0, 20*time.Millisecond))
	m.reach(step, uid)
	if m.faults.writes > 0 && m.oneIn(m.faults.writes) {
		m.breaks()
		m.faults.refused++
		return false
	}
	if m.powerFails {
		m.unsynced = append(m.unsynced, m.tree.copied())
	}
	return true
}

func (m remover) Execute(_ context.Context, permit policy.Permit, batch policy.Batch) []policy.Outcome {
	var outs []policy.Outcome
	for _, a := range batch.Actions {
		if !permit.Allows(a) {
			outs = append(outs, refuse(a, policy.ReasonRemoval, "no permit"))
			continue
		}
		m.oracle.begins(m.node, a)
		o := m.one(a)
		m.tell("%s of %s: %s%s", a.Kind, m.byUID[a.UID], o.Result, strings.TrimSuffix(" ("+o.Err+")", " ()"))
		outs = append(outs, o)
	}
	m.unsynced = nil // it syncs both directories at the end of a batch
	return outs
}

func (m remover) one(a policy.Action) policy.Outcome {
	leaf := strings.HasSuffix(a.Entry, policy.LeafSuffix)
	switch {
	case a.Kind == policy.Park:
		return m.park(a)
	case a.Kind == policy.Clear:
		return m.clear(a)
	case a.Kind == policy.PutBack && leaf:
		return m.fill(a)
	case a.Kind == policy.PutBack:
		return m.putBack(a)
	}
	return m.take(a)
}

func (m remover) park(a policy.Action) policy.Outcome {
	done := policy.Outcome{Action: a, Result: policy.Done}
	d := m.dirs[a.UID]
	if q := m.quarantine[a.Entry]; q != nil && (d == nil || d.id != a.ID) && q.id == a.ID {
		return done // by one that was killed
	}
	if d == nil {
		return policy.Outcome{Action: a, Result: policy.Gone}
	}
	if d.id != a.ID {
		return refuse(a, policy.ReasonCannotMove, "another directory has taken its name")
	}
	if !m.change(stepRename, a.UID) {
		return refuse(a, policy.ReasonCannotMove, "operation not permitted")
	}
	if !m.faults.full {
		m.manifests[a.Entry] = true
	}
	switch d = m.dirs[a.UID]; {
	case d == nil:
		return policy.Outcome{Action: a, Result: policy.Gone}
	case d.id != a.ID: // it would be moved and moved back
		return refuse(a, policy.ReasonCannotMove, "another directory has taken its name")
	}
	m.oracle.moves(m.node, d, a.Entry)
	delete(m.dirs, a.UID)
	m.quarantine[a.Entry], d.entry, d.parked = d, a.Entry, m.now
	m.oracle.parked(m.node, d)
	m.reach(stepMoved, a.UID)
	return done
}

// putBack moves a directory back, or has it and the one that was made again change places where nothing uses that.
func (m remover) putBack(a policy.Action) policy.Outcome {
	done := policy.Outcome{Action: a, Result: policy.Done}
	q, d := m.quarantine[a.Entry], m.dirs[a.UID]
	switch {
	case q == nil && d != nil && a.ID == d.id: // by one that was killed
		if m.quarantine[a.Entry+policy.ConflictSuffix] != nil {
			done.Result, done.Conflict = policy.Conflict, a.Entry+policy.ConflictSuffix
		}
		return done
	case q == nil:
		done.Result = policy.Gone
		return done
	case d != nil && a.ID != (policy.DirID{}) && q.id != a.ID && d.id == a.ID:
		return m.conflict(a)
	case a.ID != (policy.DirID{}) && q.id != a.ID:
		return refuse(a, policy.ReasonCannotMove, "another directory has taken its name")
	}
	if d != nil {
		used := !d.bare()
		switch f := prober(m).used(a.UID, a.Parked); f.Truth {
		case policy.Yes:
			return m.stays(a, f.Detail)
		case policy.Unknown:
			o := refuse(a, policy.ReasonRemade, f.Detail)
			o.Remade = true
			return o
		case policy.No:
			if used {
				m.oracle.fail(m.node, "a directory that %s uses was to change places with its elder", m.byUID[a.UID])
			}
		}
	}
	if !m.change(stepRename, a.UID) {
		return refuse(a, policy.ReasonCannotMove, "operation not permitted")
	}
	if d = m.dirs[a.UID]; d == nil {
		delete(m.quarantine, a.Entry)
		m.back(q)
		return done
	}
	if !d.bare() {
		return m.stays(a, "it holds more than was made first")
	}
	m.quarantine[a.Entry], d.entry, d.parked = d, a.Entry, m.now
	m.back(q)
	m.oracle.parked(m.node, d)
	m.reach(stepMoved, a.UID)
	if !d.bare() { // and back
		m.quarantine[a.Entry], q.entry = q, a.Entry
		m.back(d)
		return m.stays(a, "something came to it")
	}
	return m.conflict(a)
}

func (m remover) back(d *dir) {
	d.entry, d.confirmed, m.dirs[d.uid] = "", 0, d
}

// conflict gives the newer directory a name of its own.
func (m remover) conflict(a policy.Action) policy.Outcome {
	name := a.Entry + policy.ConflictSuffix
	if !m.change(stepRename, a.UID) {
		o := refuse(a, policy.ReasonCannotMove, "operation not permitted")
		o.Result, o.Remade = policy.Failed, true
		return o
	}
	if d := m.quarantine[a.Entry]; d != nil {
		delete(m.quarantine, a.Entry)
		m.quarantine[name], d.entry = d, name
	}
	return policy.Outcome{Action: a, Result: policy.Conflict, Conflict: name, Remade: true}
}

// stays is the outcome where the newer directory is used: the elder is the conflict.
func (m remover) stays(a policy.Action, why string) policy.Outcome {
	o := refuse(a, policy.ReasonRemade, why)
	o.Conflict, o.Remade = a.Entry, true
	return o
}

// clear moves what lies in the leaf to quarantine, one entry after the other.
func (m remover) clear(a policy.Action) policy.Outcome {
	d := m.dirs[a.UID]
	if d == nil || d.leaf == 0 || d.id != a.ID {
		return policy.Outcome{Action: a, Result: policy.Gone}
	}
	if !m.change(stepRename, a.UID) {
		return refuse(a, policy.ReasonCannotMove, "operation not permitted")
	}
	made := m.newDir(a.UID)
	made.entry, made.parked, m.quarantine[a.Entry] = a.Entry, m.now, made
	for d.leaf > 0 {
		d.leaf, made.leaf = d.leaf-1, made.leaf+1
		m.reach(stepMoved, a.UID)
	}
	d.changed = m.wall()
	return policy.Outcome{Action: a, Result: policy.Done, ID: made.id, Left: made.residue()}
}

// fill moves it back.
func (m remover) fill(a policy.Action) policy.Outcome {
	made, d := m.quarantine[a.Entry], m.dirs[a.UID]
	switch {
	case made == nil:
		return policy.Outcome{Action: a, Result: policy.Done}
	case d == nil:
		return policy.Outcome{Action: a, Result: policy.Partly, ID: made.id, Left: made.residue(), Err: "the leaf is not there"}
	}
	for made.leaf > 0 {
		made.leaf, d.leaf = made.leaf-1, d.leaf+1
		m.reach(stepMoved, a.UID)
	}
	delete(m.quarantine, a.Entry)
	return policy.Outcome{Action: a, Result: policy.Done}
}

// take removes by class, in quarantine only.
func (m remover) take(a policy.Action) policy.Outcome {
	o := policy.Outcome{Action: a, Result: policy.Done, Taken: map[contents.Class]policy.Tally{}}
	d := m.quarantine[a.Entry]
	switch {
	case d == nil:
		o.Result = policy.Gone
		return o
	case a.ID != (policy.DirID{}) && a.ID != d.id:
		return refuse(a, policy.ReasonRemoval, "another directory has taken its name")
	case a.Take == contents.TakeNone:
		return refuse(a, policy.ReasonContentUnknown, "it is there again")
	case a.Take != contents.TakeAll && (strings.Contains(a.Entry, policy.ConflictSuffix) || a.ID == (policy.DirID{}) && !m.manifests[a.Entry]):
		return refuse(a, policy.ReasonContentUnknown, "nobody knows what it is")
	case m.program.plant.take != nil && m.program.plant.take(m.node, a):
		return refuse(a, policy.ReasonContentUnknown, "it has no manifest")
	case len(d.mounts) > 0 && d.mountedHere():
		return refuse(a, policy.ReasonMounted, "something is mounted in it")
	}
	for _, class := range [...]contents.Class{contents.ClassSkeleton, contents.ClassProjected, contents.ClassEphemeral, contents.ClassData} {
		if !a.Take.Has(class) {
			continue
		}
		count := d.has[class]
		if class == contents.ClassData {
			count += d.leaf
		}
		if !m.change(stepUnlink, a.UID) {
			o.Result, o.Err = policy.Failed, "operation not permitted"
			o.Why = []policy.Why{{Reason: policy.ReasonRemoval, Detail: o.Err}}
			return o
		}
		m.oracle.removes(m.node, d, a, class, count)
		d.has[class] = 0
		if class == contents.ClassData {
			d.leaf = 0
		}
		o.Taken[class] = policy.Tally{Entries: int64(count) + 1}
	}
	if d.confirmed == 0 {
		d.confirmed = m.now
	}
	if d.ran = false; d.stuck() {
		o.Result, o.Left = policy.Partly, d.residue()
		return o
	}
	delete(m.quarantine, a.Entry)
	delete(m.manifests, a.Entry)
	return o
}

func (m remover) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine bool, err error) {
	return m.dirs[uid] != nil, m.quarantine[entry] != nil, nil
}

func (m remover) Home() (parent, quarantine policy.DirID, err error) {
	return policy.DirID{Dev: 1, Ino: 2, Btime: 1}, policy.DirID{Dev: 1, Ino: 3, Btime: 1}, nil
}

func (m remover) List() ([]string, error) { return slices.Sorted(maps.Keys(m.quarantine)), nil }

func (m remover) Movable() error { return nil }

func (m remover) Means() policy.Means { return policy.Means{} }
