package policy

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Between a look and the rename are seconds on a loaded node. A static pod whose manifest comes back meanwhile has its
// volumes set up in the directory that is about to be moved, and its kubelet does not set up a volume twice. So right
// before a batch is renamed, and again right after, the sources that show such a pod first are read once more.

// LastFacts are the facts that the last question asks for, and no others.
func LastFacts() []FactName {
	return []FactName{FactMounted, FactSandbox, FactContainer, FactCgroup, FactStaticPod, FactKubeletLists}
}

// moves reports whether the action renames what lies in the pods directory.
func (a Action) moves() bool { return a.Kind == Park || a.Kind == Clear }

// LastAsked returns the evidence behind the actions of the batch that need the last question: those that move
// something out of the pods directory.
func (b Batch) LastAsked() []Evidence {
	var pods []Evidence
	for _, a := range b.Actions {
		if a.moves() {
			pods = append(pods, *a.Evidence)
		}
	}
	return pods
}

// StillDead returns the batch without the actions whose pods are not known to be dead by the answers to the last
// question, and an outcome for each of those. One that was not answered is withdrawn: all of its facts are unknown.
func (b Batch) StillDead(answers []Evidence, n Node, r Rules) (Batch, []Outcome) {
	now := map[string]Evidence{}
	for _, e := range answers {
		now[e.Name] = e
	}
	var still Batch
	var withdrawn []Outcome
	for _, a := range b.Actions {
		if a.moves() {
			if why := lastObjections(now[a.Evidence.Name], n, r); len(why) > 0 {
				withdrawn = append(withdrawn, Outcome{Action: a, Result: Refused, Why: why, Withdrawn: true})
				continue
			}
		}
		still.Actions = append(still.Actions, a)
	}
	return still, withdrawn
}

// lastObjections judges the facts of the last question as Judge does.
func lastObjections(e Evidence, n Node, r Rules) []Why {
	j := &judgement{e: e, n: n, r: r}
	for _, fact := range LastFacts() {
		j.apply(ruleOf(fact), 0)
	}
	var why []Why
	for _, o := range j.against {
		why = append(why, o.why)
	}
	return why
}

// PutBacks returns the actions that put back what was just moved of pods that live by the same question, asked after the
// rename. A mount scan that failed counts as a mount. Every other doubt is left to the confirm time.
func PutBacks(moved []Outcome, answers []Evidence) []Action {
	now := map[string]Evidence{}
	for _, e := range answers {
		now[e.Name] = e
	}
	var actions []Action
	for _, o := range moved {
		e := now[o.Action.Evidence.Name]
		var why []Why
		for _, fact := range LastFacts() {
			switch f := e.Facts[fact]; {
			case f.Truth == Yes:
				why = append(why, Why{ruleOf(fact).alive, f.Detail})
			case f.Truth == Unknown && fact == FactMounted:
				why = append(why, Why{ruleOf(fact).unknown, unknownDetail(fact, f)})
			}
		}
		if len(why) > 0 {
			actions = append(actions, putBack(o, e, why))
		}
	}
	return actions
}

// putBack is the action that puts back what was moved a moment ago.
func putBack(o Outcome, e Evidence, why []Why) Action {
	a := Action{
		Kind: PutBack, UID: o.Action.UID, Entry: o.Action.Entry, ID: o.Action.ID, Leaf: o.Action.Leaf, Parked: o.At, Why: why,
		Evidence: o.Action.Evidence,
	}
	if o.Action.Kind == Clear {
		a.ID = o.ID
	}
	if e.UID != "" {
		a.Evidence = &e
	}
	return a
}

// Misjudged reports whether the outcome shows that a pod lived: it met a directory that its kubelet made again, or showed
// life right after the rename. A static pod may return at any moment, and a mount may have come without a pod.
func (o Outcome) Misjudged() bool {
	e := o.Action.Evidence
	if e != nil && mayReturn(*e) {
		return false
	}
	lived := o.Action.Kind == PutBack && !o.Action.ByPerson && e != nil &&
		(e.Facts[FactSandbox].Truth == Yes || e.Facts[FactContainer].Truth == Yes || e.Facts[FactCgroup].Truth == Yes || e.Facts[FactKubeletLists].Truth == Yes)
	return lived || o.MadeAgain()
}

// Removes reports whether the action removes what lies in quarantine.
func (a Action) Removes() bool { return a.Kind == Strip || a.Kind == Purge }

// Unmounted returns the batch without the removals of what is mounted, or not known, by a scan made immediately before.
func (b Batch) Unmounted(mounts map[parsers.PodUID]Fact) Batch {
	return Batch{Actions: slices.DeleteFunc(slices.Clone(b.Actions), func(a Action) bool {
		return a.Removes() && mounts[a.UID].Truth != No
	})}
}

// Moved reports whether something may have been moved to quarantine, also by an action that failed: its rename may have been
// made before an fsync failed or a call hung. A directory that was made again opens the breaker by itself.
func (o Outcome) Moved() bool {
	return o.Action.moves() && o.Result != Gone && o.Result != Refused && !o.MadeAgain()
}
