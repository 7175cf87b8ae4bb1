package policy

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// ActionKind is one way to change the disk. There are no others.
type ActionKind string

// Park moves a pod directory from the pods directory into quarantine, PutBack moves it
// back. Strip removes, in quarantine, what holds no user's data; Purge also what is
// ephemeral, or all of it.
const (
	Park    ActionKind = "park"
	PutBack ActionKind = "put-back"
	Strip   ActionKind = "strip"
	Purge   ActionKind = "purge"
)

// Action is one change to one pod. It is used once.
type Action struct {
	Kind  ActionKind
	UID   parsers.PodUID
	Entry string // the name in quarantine
	// ID is the directory that was judged; another one that has taken its name is left
	// alone. The zero value means any, and is for PutBack and later only.
	ID   DirID
	Take ClassSet
	Why  []Why
	// ByPerson is true for what a person asked for: a pod that a person restored is kept.
	ByPerson bool
	// Manifest is the text that is laid beside the entry in quarantine, so that a person
	// without our state directory still knows what it is. Park only.
	Manifest []byte
	// Evidence is what the action was judged from, for the record.
	Evidence *Evidence
}

// BatchSize is the most actions of one plan: facts, scans and syncs are per batch.
const BatchSize = 256

// Plan is what one step changes. Execute runs it, a dry run prints it.
type Plan struct {
	Actions []Action
}

// Gate is what stops enforcing whatever the evidence says.
type Gate struct {
	Breaker bool // open: a parked pod turned out to live, and no person has said go on
	Proven  bool // one pod has been parked and confirmed since the start
	InWork  int  // pods parked now that have yet to prove dead
}

// MakePlan turns the verdicts of one look into plans of at most BatchSize, and adds to
// the verdicts that are Reap and not planned the reason for that. entry names a pod in
// quarantine.
func MakePlan(ev []Evidence, verdicts []Verdict, n Node, g Gate, r Rules, entry func(parsers.PodUID) string) []Plan {
	limit := len(verdicts)
	if r.MaxPerLook > 0 {
		limit = min(limit, r.MaxPerLook)
	}
	if !g.Proven {
		limit = min(limit, max(0, 1-g.InWork))
	}
	var actions []Action
	for i := range verdicts {
		v := &verdicts[i]
		if v.Decision != Reap {
			continue
		}
		if why, stopped := gate(n, g, r); stopped {
			v.keep(Keep, why.Reason, why.Detail)
			continue
		}
		if len(actions) >= limit {
			v.keep(Wait, ReasonLimit, limitDetail(g, r))
			continue
		}
		actions = append(actions, Action{
			Kind: Park, UID: v.UID, Entry: entry(v.UID), ID: ev[i].ID, Why: v.Why, Evidence: &ev[i],
		})
	}
	return Batches(actions)
}

// Batches cuts actions into plans of at most BatchSize.
func Batches(actions []Action) []Plan {
	var plans []Plan
	for batch := range slices.Chunk(actions, BatchSize) {
		plans = append(plans, Plan{Actions: batch})
	}
	return plans
}

// Undoing leaves of the actions on what lies in quarantine only those that put a pod back:
// all that the open breaker allows. One pod that turned out to live says that the others
// may have been misjudged in the same way, so nothing of them is removed either.
func Undoing(actions []Action) []Action {
	return slices.DeleteFunc(actions, func(a Action) bool { return a.Kind != PutBack })
}

// Back is the way back of a pod that was just parked and that the mount scan hit, or
// could not clear.
func Back(parked Action, mounted Fact) Action {
	why := Why{ReasonMounted, mounted.Detail}
	if mounted.Truth != Yes {
		why = Why{ReasonMountsUnknown, unknownDetail(FactMounted, mounted)}
	}
	return Action{
		Kind: PutBack, UID: parked.UID, Entry: parked.Entry, ID: parked.ID,
		Why: []Why{why}, Evidence: parked.Evidence,
	}
}

const breakerOpen = "a parked pod turned out to live; orphan-reaper quarantine resume lets it go on"

func gate(n Node, g Gate, r Rules) (Why, bool) {
	switch {
	case n.MayEnforce.Truth != Yes:
		return Why{ReasonNamespaces, n.MayEnforce.Detail}, true
	case n.Agrees.Truth != Yes:
		return Why{ReasonContradiction, n.Agrees.Detail}, true
	case g.Breaker:
		return Why{ReasonBreaker, breakerOpen}, true
	case r.Observe:
		return Why{ReasonObserve, "mode observe changes nothing"}, true
	}
	return Why{}, false
}

func limitDetail(g Gate, r Rules) string {
	if !g.Proven {
		return "the first pod after a start is confirmed before the rest"
	}
	return fmt.Sprintf("at most %d in one look", r.MaxPerLook)
}
