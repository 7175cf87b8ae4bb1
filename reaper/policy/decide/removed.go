package decide

import (
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// askedFor remembers that the runtime was asked to remove a sandbox, as long as no pod has proved dead
// since the start: what the runtime has removed nobody brings back. One that failed counts as well,
// since a runtime that did not answer in time may remove it after all; the next look tells.
func (m *Memory) askedFor(o policy.Outcome, now policy.Instant) {
	if m.Proven || o.Result != policy.Done && o.Result != policy.Failed {
		return
	}
	was := m.removed[o.Action.UID]
	was.At, was.IDs = now, append(slices.Clip(was.IDs), o.Action.Sandbox.ID)
	m.removed[o.Action.UID] = was
}

// judgeRemoved judges the pods whose sandboxes were removed. They are in work until one of them has
// shown no sign of life for the confirm time: by that the first pod proves dead. One that lives was
// judged wrongly, and nothing more is taken of any.
func (d *Ruling) judgeRemoved(c Case, g *gate) {
	m := &d.Memory
	if m.Proven {
		m.removed = nil
	}
	for _, uid := range slices.Sorted(maps.Keys(m.removed)) {
		was := m.removed[uid]
		e := d.evidence(uid)
		if e == nil && c.Only { // nothing was seen of it
			g.inWork++
			continue
		}
		if e == nil { // neither the runtime nor the pods directory has it
			e = &policy.Evidence{UID: uid}
			for n := range policy.NumFacts {
				e.Facts[n].Truth = policy.No
			}
		}
		v, removed := policy.JudgeRemoved(*e, d.Look.Node, was, c.Rules, d.Look.At)
		switch {
		case !removed:
			delete(m.removed, uid)
		case v.Decision == policy.ParkedStrip:
			m.Proven, g.proven = true, true
		case v.Decision == policy.ParkedWait:
			g.inWork++
		default: // it lives; a static pod whose manifest came back does so although the judgement was right
			delete(m.removed, uid)
			if v.Alive && d.Plan.Breaker == nil {
				d.Plan.Breaker = &policy.Record{Kind: policy.KindBreaker, UID: uid, Namespace: e.Namespace, PodName: e.PodName, Why: v.Why}
			}
		}
	}
	g.begun = m.removed
}

// evidence is what the look says of a pod that has a directory or that only the runtime has; nil where
// it saw neither.
func (d *Ruling) evidence(uid parsers.PodUID) *policy.Evidence {
	for _, pods := range [...][]policy.Evidence{d.Look.Pods, d.Look.RuntimeOnly} {
		for i := range pods {
			if pods[i].UID == uid {
				return &pods[i]
			}
		}
	}
	return nil
}

// untilProved is when a pod whose sandboxes were removed may have proved dead; false where there is none.
func (s *schedule) untilProved(r policy.Rules, now policy.Instant) bool {
	for _, was := range s.Memory.removed {
		since, ok := now.Since(was.At)
		if left := r.Confirm - since; ok && left > 0 {
			s.soon(left, true)
		} else {
			s.soon(lookSoon, false) // something else keeps it unproved, and may do so for ever
		}
	}
	return len(s.Memory.removed) > 0
}
