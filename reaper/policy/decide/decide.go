package decide

import (
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// Case is all that Decide weighs.
type Case struct {
	Look    policy.Look
	Claims  []reported.Claim // what the log has said since the last pass
	Memory  Memory
	Entries map[string]*policy.EntryState // what the ledger knows of
	Breaker bool                          // the ledger's: enforcing has stopped, and no operator has resumed removals
	Rules   policy.Rules
	Only    bool // only some pods were asked for: what is known of the others stays
	DryRun  bool // the slow start is left out, so that the plan shows all that would go in the end
}

// Ruling is what Decide says of one look.
type Ruling struct {
	Look        policy.Look      // with the facts that log, ledger and memory give
	Verdicts    []policy.Verdict // one for each of Look.Pods
	RuntimeOnly []policy.Verdict // one for each of Look.RuntimeOnly
	Parked      []policy.Verdict // one for each of Look.Parked
	Resting     []policy.Verdict // one for each of Look.Resting: whether the pod lives again
	Plan        Plan
	Memory      Memory
}

// Decide judges every pod of a look and every entry of the quarantine, and plans what follows.
// It is pure: what it is given it does not change, and the same values give the same ruling.
func Decide(c Case) Ruling {
	d := Ruling{Look: c.Look, Memory: c.Memory.copied(len(c.Claims) > 0)}
	d.assemble(c)
	d.judge(c)
	permit, pace := d.judgeEntries(c)
	d.plan(c, permit, pace)
	d.remember(c)
	return d
}

// judge judges every pod.
func (d *Ruling) judge(c Case) {
	look := &d.Look
	judge := func(pods []policy.Evidence) []policy.Verdict {
		verdicts := make([]policy.Verdict, len(pods))
		for i := range pods {
			verdicts[i] = policy.Judge(pods[i], look.Node, c.Memory.Holds[pods[i].UID], c.Rules, look.At)
		}
		return verdicts
	}
	d.Verdicts, d.RuntimeOnly = judge(look.Pods), judge(look.RuntimeOnly)
}

// judgeEntries judges what lies in quarantine, and returns what that means for what may be moved.
func (d *Ruling) judgeEntries(c Case) (policy.Permit, pace) {
	look, m := &d.Look, &d.Memory
	p := pace{proven: m.Proven || c.DryRun}
	todo := make([]*policy.Action, len(look.Parked))
	for i := range look.Parked {
		e, v := &look.Parked[i], policy.Verdict{Stage: policy.InQuarantine, Decision: policy.Wait}
		if state := c.Entries[e.Entry]; state != nil {
			v, todo[i] = policy.JudgeEntry(*e, look.Node, *state, c.Rules, look.At)
			d.noteLife(c, e, state, v)
			if state.Phase == policy.PhaseParked && v.Unproven() {
				p.inWork++
			}
			if m.parked[e.Entry] && v.OnlyConfirms() {
				since, ok := look.At.Since(state.Parked.At)
				p.quiet = p.quiet || ok && c.Rules.HoldReported > 0 && since >= c.Rules.HoldReported
			}
		}
		d.Parked = append(d.Parked, v)
	}
	for i := range look.Resting {
		e, v := &look.Resting[i], policy.Verdict{Stage: policy.Resting, Decision: policy.Wait}
		if state := c.Entries[e.Entry]; state != nil {
			v = policy.Lives(*e, look.Node, *state, c.Rules, look.At)
			d.noteLife(c, e, state, v)
		}
		d.Resting = append(d.Resting, v)
	}
	permit := policy.Standing{Node: look.Node, Breaker: c.Breaker || d.Plan.Breaker != nil, Rules: c.Rules}.Gate()
	for i, a := range todo {
		v := &d.Parked[i]
		v.Gate(permit)
		switch {
		case a == nil || v.Decision == policy.Wait || !permit.Allows(*a) || m.TooSoon(a.Entry, look.At):
		case a.Removes():
			d.Plan.Remove = append(d.Plan.Remove, *a)
		default:
			d.Plan.Undo = append(d.Plan.Undo, *a)
		}
	}
	if d.Plan.Proving = !m.Proven && slices.ContainsFunc(d.Plan.Remove, m.proves); d.Plan.Proving {
		// The first pod is confirmed by what this look saw. The rest may follow at once, unless its
		// strip is put off or refused: the loop asks Memory.Proven before it moves any.
		p.proven, p.inWork = true, 0
	}
	return permit, p
}

// noteLife plans what follows where a pod lives of which something lies in quarantine: its entry
// stays there, and where it was judged wrongly, nothing more is moved of any pod.
func (d *Ruling) noteLife(c Case, e *policy.Evidence, state *policy.EntryState, v policy.Verdict) {
	if v.Decision == policy.Keep {
		d.Plan.Frozen = append(d.Plan.Frozen, policy.Frozen(*e, *state, v, d.Look.Node, d.Look.At))
	}
	if !v.Alive || d.Plan.Breaker != nil {
		return
	}
	d.Plan.Breaker = &policy.Record{Kind: policy.KindBreaker, UID: e.UID, Namespace: e.Namespace, PodName: e.PodName, Why: v.Why}
	if c.Rules.Observe && v.Decision == policy.Return {
		d.Plan.Breaker.Undo = policy.Undo(policy.Action{UID: e.UID}) // it does not go back by itself
	}
}

// plan returns what to park and to clear.
func (d *Ruling) plan(c Case, permit policy.Permit, p pace) {
	d.Memory.backOff(d.Look.At, d.Verdicts, d.RuntimeOnly)
	if !c.DryRun {
		p.inWork += d.Memory.unfinished(d.Verdicts, d.Look.At, c.Only)
	}
	given := map[string]bool{}
	ev, verdicts := pointers(d.Look.Pods, d.Look.RuntimeOnly), pointers(d.Verdicts, d.RuntimeOnly)
	d.Plan.Moves = moves(ev, verdicts, permit, p, c.Rules, func(uid parsers.PodUID, kind policy.ActionKind) string {
		name := freeEntry(uid, kind, d.Look.At.Wall.Unix(), func(name string) bool { return c.Entries[name] != nil || given[name] })
		given[name] = true
		return name
	})
}

// remember keeps the holds of all pods that this look has seen.
func (d *Ruling) remember(c Case) {
	m := &d.Memory
	m.Holds, m.Recorded = map[parsers.PodUID]policy.Hold{}, map[parsers.PodUID]string{}
	if c.Only { // what this look has not seen stays
		maps.Copy(m.Holds, c.Memory.Holds)
		maps.Copy(m.Recorded, c.Memory.Recorded)
	} else {
		m.Looked = c.Look.At
	}
	for _, v := range pointers(d.Verdicts, d.RuntimeOnly) {
		delete(m.Holds, v.UID)
		if v.UID != "" && v.Hold != (policy.Hold{}) {
			m.Holds[v.UID] = v.Hold
		}
		if t, ok := c.Memory.Recorded[v.UID]; ok {
			m.Recorded[v.UID] = t
		}
	}
}
