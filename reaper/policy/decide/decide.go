package decide

import (
	"maps"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// Case is all that Decide weighs.
type Case struct {
	Look    policy.Look
	Claims  []reported.Claim // of the log since the last pass
	Memory  Memory
	Entries map[string]*policy.EntryState // what the ledger knows of
	Breaker bool                          // the ledger's: enforcing has stopped, and no operator has resumed removals
	Rules   policy.Rules
	Only    bool // only some pods were asked for: what is known of the others stays
	DryRun  bool // nothing is tried
}

// InWork lists the quarantine entries that a pass may take further, and those that rest, whose pods may live again.
func InWork(all map[string]*policy.EntryState, r policy.Rules, now policy.Instant, pressed bool) []policy.EntryState {
	var in []policy.EntryState
	for _, e := range policy.Listed(all) {
		e.Rests = !policy.Due(e, r, now, pressed)
		if !e.Rests || e.Phase == policy.PhaseConfirmed {
			in = append(in, e)
		}
	}
	return in
}

// Ruling is what Decide returns of one look.
type Ruling struct {
	Look   policy.Look     // without its pods
	Pods   []policy.Judged // its pods, with the facts that log, ledger and memory give: by stage, as in the look
	Plan   Plan
	Memory Memory
}

// Decide judges every pod of a look and every entry of the quarantine, and plans what follows. It is pure.
func Decide(c Case) Ruling {
	d := Ruling{Look: c.Look, Memory: c.Memory.copied(len(c.Claims) > 0)}
	d.assemble(c)
	d.plan(c, d.planEntries(c, d.judge(c)))
	d.remember(c)
	return d
}

// judge judges every pod and every entry, and returns the actions for those entries that may go further.
func (d *Ruling) judge(c Case) map[*policy.Judged]*policy.Action {
	todo := map[*policy.Judged]*policy.Action{}
	for i := range d.Pods {
		p, node, at := &d.Pods[i], d.Look.Node, d.Look.At
		state := c.Entries[p.Entry]
		switch {
		case p.Stage < policy.InQuarantine:
			p.Verdict = policy.Judge(p.Evidence, node, c.Memory.Holds[p.UID], c.Rules, at)
			continue
		case state == nil:
			p.Decision = policy.Wait
			continue
		case p.Stage == policy.InQuarantine:
			p.Verdict, todo[p] = policy.JudgeEntry(p.Evidence, node, *state, c.Rules, at)
		case p.Stage == policy.Resting:
			p.Verdict = policy.Lives(p.Evidence, node, *state, c.Rules, at)
		}
		d.noteLife(c, p, state)
	}
	return todo
}

// planEntries plans what is done with the entries, and returns the permit.
func (d *Ruling) planEntries(c Case, todo map[*policy.Judged]*policy.Action) policy.Permit {
	permit := policy.Standing{Node: d.Look.Node, Breaker: c.Breaker || d.Plan.Breaker != nil, Rules: c.Rules}.Gate()
	for p := range policy.At(d.Pods, policy.InQuarantine) {
		p.Gate(permit)
		a := todo[p]
		if a != nil && c.DryRun {
			p.Refuse(c.Entries[p.Entry].Failed)
		}
		switch {
		case a == nil || p.Decision == policy.Wait || p.Decision == policy.Keep || !permit.Allows(*a) || d.Memory.TooSoon(a.Entry, d.Look.At):
		case a.Removes():
			d.Plan.Remove = append(d.Plan.Remove, *a)
		default:
			d.Plan.Undo = append(d.Plan.Undo, *a)
		}
	}
	return permit
}

// noteLife plans what follows if a pod lives whose entry is in quarantine: the entry stays there unless it was cleared a
// moment ago, and if the pod was judged wrongly the breaker opens.
func (d *Ruling) noteLife(c Case, p *policy.Judged, state *policy.EntryState) {
	if back := policy.PutBackCleared(p, *state, c.Rules, d.Look.At); back != nil {
		d.Plan.Undo = append(d.Plan.Undo, *back)
	} else if p.Decision == policy.Keep {
		d.Plan.Frozen = append(d.Plan.Frozen, policy.Frozen(p.Evidence, *state, p.Verdict, d.Look.Node, d.Look.At))
	}
	if !p.Alive || d.Plan.Breaker != nil {
		return
	}
	d.Plan.Breaker = &policy.Record{Kind: policy.KindBreaker, UID: p.UID, Namespace: p.Namespace, PodName: p.PodName, Why: p.Why}
	if c.Rules.Observe && p.Decision == policy.Return {
		d.Plan.Breaker.Undo = policy.Undo(p.UID) // it does not go back by itself
	}
}

// plan plans what to park and to clear.
func (d *Ruling) plan(c Case, permit policy.Permit) {
	d.Memory.backOff(c, d.Pods)
	given := map[string]bool{}
	d.Plan.Moves = moves(d.Pods, permit, c.Rules, func(uid parsers.PodUID, kind policy.ActionKind) string {
		name := freeEntry(uid, kind, d.Look.At.Wall.Unix(), func(name string) bool { return c.Entries[name] != nil || given[name] })
		given[name] = true
		return name
	})
}

// remember keeps the holds of all pods that this look has seen.
func (d *Ruling) remember(c Case) {
	m := &d.Memory
	m.Holds, m.Recorded, m.Refused = map[parsers.PodUID]policy.Hold{}, map[parsers.PodUID]string{}, map[parsers.PodUID]Refusal{}
	if c.Only { // what this look has not seen stays
		maps.Copy(m.Holds, c.Memory.Holds)
		maps.Copy(m.Recorded, c.Memory.Recorded)
		maps.Copy(m.Refused, c.Memory.Refused)
	}
	for p := range policy.At(d.Pods, policy.InPlace, policy.InRuntime) {
		delete(m.Holds, p.UID)
		if p.UID != "" && p.Hold != (policy.Hold{}) {
			m.Holds[p.UID] = p.Hold
		}
		if t, ok := c.Memory.Recorded[p.UID]; ok {
			m.Recorded[p.UID] = t
		}
		if no, ok := c.Memory.Refused[p.UID]; ok {
			m.Refused[p.UID] = no
		}
	}
}
