package decide

import (
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
)

// Case is all that Decide weighs.
type Case struct {
	Look    policy.Look
	Claims  []heard.Claim // what the log has said since the last pass
	Memory  Memory
	Entries map[string]*policy.EntryState // what the ledger knows of
	Breaker bool                          // the ledger's: enforcing has stopped, and no person has said go on
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
	d.Look.Pods, d.Look.RuntimeOnly = slices.Clone(c.Look.Pods), slices.Clone(c.Look.RuntimeOnly)
	d.Look.Parked, d.Look.Resting = slices.Clone(c.Look.Parked), slices.Clone(c.Look.Resting)
	d.judge(c)
	permit, pace := d.judgeEntries(c)
	d.plan(c, permit, pace)
	d.remember(c)
	return d
}

// judge fills in the facts that the log and the ledger give, and judges every pod.
func (d *Ruling) judge(c Case) {
	look, m := &d.Look, &d.Memory
	if look.Node.Network.Truth != policy.Yes && !c.Rules.Waive {
		m.NetworkDown = look.At
	}
	m.Pressed, look.Node.NetworkDown = look.Node.Pressed(), m.NetworkDown
	has := d.here(c)
	m.Heard.Add(heard.Known(c.Claims, has), look.Node, look.At)
	d.count(c, has)
	m.Names = fillNames(look, c.Memory.Names)
	d.rememberStatic(c)
	restored := map[parsers.PodUID]*policy.EntryState{}
	for _, name := range slices.Sorted(maps.Keys(c.Entries)) {
		if e := c.Entries[name]; e.Restored {
			restored[e.UID] = e
		}
	}
	judge := func(pods []policy.Evidence) []policy.Verdict {
		verdicts := make([]policy.Verdict, len(pods))
		for i := range pods {
			e := &pods[i]
			m.Heard.Tell(e, look.Node, look.At)
			e.Facts[policy.FactPodResources] = lists.Resources(look, e)
			policy.DoubtAnyNamed(e, look.Node, c.Rules, look.At)
			tellRestored(e, restored[e.UID])
			verdicts[i] = policy.Judge(*e, look.Node, c.Memory.Holds[e.UID], c.Rules, look.At)
		}
		return verdicts
	}
	d.Verdicts, d.RuntimeOnly = judge(look.Pods), judge(look.RuntimeOnly)
}

// tellRestored sets the fact restored. It sets the pod's name, too, where what told the name was
// removed before the restore.
func tellRestored(e *policy.Evidence, was *policy.EntryState) {
	if was == nil {
		e.Facts.Set(policy.FactRestored, policy.No, "ledger", "")
		return
	}
	e.Facts.Set(policy.FactRestored, policy.Yes, "ledger", "an operator restored it from quarantine")
	if e.PodName == "" {
		e.Namespace, e.PodName = was.Namespace, was.PodName
	}
}

// here returns the pods that the node has by this look or had by the last one, in the pods
// directory, in the runtime or in quarantine.
func (d *Ruling) here(c Case) map[parsers.PodUID]bool {
	now := maps.Clone(c.Look.Listed)
	if now == nil {
		now = map[parsers.PodUID]bool{}
	}
	for _, pods := range [...][]policy.Evidence{c.Look.Pods, c.Look.RuntimeOnly} {
		for i := range pods {
			now[pods[i].UID] = true
		}
	}
	has := maps.Clone(now)
	maps.Copy(has, c.Memory.listed)
	for _, e := range c.Entries {
		if e.Phase.InQuarantine() {
			has[e.UID] = true
		}
	}
	d.Memory.listed = now
	return has
}

// judgeEntries judges what lies in quarantine, and returns what that means for what may be moved.
func (d *Ruling) judgeEntries(c Case) (policy.Permit, pace) {
	look, m := &d.Look, &d.Memory
	p := pace{proven: m.Proven || c.DryRun}
	todo := make([]*policy.Action, len(look.Parked))
	for i := range look.Parked {
		e, v := &look.Parked[i], policy.Verdict{Stage: policy.InQuarantine, Decision: policy.Wait}
		if state := c.Entries[e.Entry]; state != nil {
			m.Heard.TellParked(e, look.Node, *state, look.At)
			if e.Namespace == "" && e.PodName == "" {
				e.Namespace, e.PodName = state.Namespace, state.PodName
			}
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
			m.Heard.TellParked(e, look.Node, *state, look.At)
			v = policy.Lives(*e, look.Node, *state, c.Rules, look.At)
			d.noteLife(c, e, state, v)
		}
		d.Resting = append(d.Resting, v)
	}
	permit := policy.Standing{Node: look.Node, Breaker: c.Breaker || d.Plan.Breaker != nil, Rules: c.Rules}.Gate()
	var actions []policy.Action
	for i, a := range todo {
		v := &d.Parked[i]
		v.Gate(permit)
		if a != nil && v.Decision != policy.Wait && permit.Allows(*a) && !m.TooSoon(a.Entry, look.At) {
			actions = append(actions, *a)
		}
	}
	if d.Plan.Proving = !m.Proven && slices.ContainsFunc(actions, m.proves); d.Plan.Proving {
		// The first pod is confirmed by what this look saw. The rest may follow at once, unless its
		// strip is put off or refused: the loop asks Memory.Proven before it moves any.
		p.proven, p.inWork = true, 0
	}
	d.Plan.Parked = undoFirst(actions)
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

// plan says what to park and to clear.
func (d *Ruling) plan(c Case, permit policy.Permit, p pace) {
	d.Memory.backOff(d.Look.At, d.Verdicts, d.RuntimeOnly)
	if !c.DryRun {
		p.inWork += d.Memory.unfinished(d.Verdicts, d.Look.At, c.Only)
	}
	given := map[string]bool{}
	ev, verdicts := pointers(d.Look.Pods, d.Look.RuntimeOnly), pointers(d.Verdicts, d.RuntimeOnly)
	d.Plan.Moves = batchesOf(ev, verdicts, permit, p, c.Rules, func(uid parsers.PodUID, kind policy.ActionKind) string {
		name := freeEntry(uid, kind, d.Look.At.Wall.Unix(), func(name string) bool { return c.Entries[name] != nil || given[name] })
		given[name] = true
		return name
	})
}

// pointers returns pointers to all elements of several slices.
func pointers[T any](of ...[]T) []*T {
	var all []*T
	for _, s := range of {
		all = slices.Grow(all, len(s))
		for i := range s {
			all = append(all, &s[i])
		}
	}
	return all
}

// remember keeps the holds of all pods that this look has seen.
func (d *Ruling) remember(c Case) {
	m := &d.Memory
	m.Holds, m.Told = map[parsers.PodUID]policy.Hold{}, map[parsers.PodUID]string{}
	if c.Only { // what this look has not seen stays
		maps.Copy(m.Holds, c.Memory.Holds)
		maps.Copy(m.Told, c.Memory.Told)
		names := maps.Clone(c.Memory.Names)
		if names == nil {
			names = map[parsers.PodUID]policy.PodName{}
		}
		maps.Copy(names, m.Names)
		m.Names = names
	} else {
		m.Looked = c.Look.At
	}
	for _, v := range pointers(d.Verdicts, d.RuntimeOnly) {
		delete(m.Holds, v.UID)
		if v.UID != "" && v.Hold != (policy.Hold{}) {
			m.Holds[v.UID] = v.Hold
		}
		if t, ok := c.Memory.Told[v.UID]; ok {
			m.Told[v.UID] = t
		}
	}
}
