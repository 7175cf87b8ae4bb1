package policy

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Gate is what stops enforcing whatever the evidence says.
type Gate struct {
	Breaker bool // open: a parked pod turned out to live, and no person has said go on
	Proven  bool // one pod has been parked and confirmed since the start
	InWork  int  // pods parked now that have yet to prove dead, or whose kubelet has yet to finish
}

// TakeOf turns the verdicts of one look into batches, and adds to the verdicts that are Reap, or
// have leaves to clear or sandboxes to remove, and are not planned the reason for that. entry
// names what is taken of a pod in quarantine, each time anew.
//
// A pod whose leaves are cleared, or whose sandboxes the runtime is to remove, counts as one
// that is taken: it was judged by the same eyes. Sandboxes have batches of their own, and their
// pods' directories come not before another look.
func TakeOf(
	ev []Evidence, verdicts []Verdict, n Node, g Gate, r Rules, entry func(parsers.PodUID, ActionKind) string,
) (take, sandboxes []Batch) {
	limit := len(verdicts)
	if r.MaxPerLook > 0 {
		limit = min(limit, r.MaxPerLook)
	}
	if !g.Proven {
		limit = min(limit, max(0, 1-g.InWork))
	}
	var actions, removals []Action
	taken := 0
	for i := range verdicts {
		v := &verdicts[i]
		if len(v.Sandboxes) == 0 && (ev[i].RuntimeOnly || v.Decision != Reap && len(v.Leaves) == 0) {
			continue
		}
		if why, stopped := gate(n, g, r); stopped {
			v.keep(Keep, why.Reason, why.Detail)
			continue
		}
		if taken >= limit {
			v.keep(Wait, ReasonLimit, limitDetail(g, r))
			continue
		}
		taken++
		for _, s := range v.Sandboxes {
			removals = append(removals, Action{Kind: RemoveSandbox, UID: v.UID, Why: v.Why, Sandbox: s, Evidence: &ev[i]})
		}
		for _, leaf := range v.Leaves {
			actions = append(actions, Action{
				Kind: Clear, UID: v.UID, Entry: entry(v.UID, Clear), ID: ev[i].ID, Leaf: leaf, Why: v.Why, Evidence: &ev[i],
			})
		}
		if v.Decision != Reap {
			continue
		}
		actions = append(actions, Action{
			Kind: Park, UID: v.UID, Entry: entry(v.UID, Park), ID: ev[i].ID, Why: v.Why, Evidence: &ev[i],
		})
	}
	return Batches(actions), Batches(removals)
}

// Undoing leaves of the actions on what lies in quarantine only those that put a pod back:
// all that the open breaker allows. One pod that turned out to live says that the others
// may have been misjudged in the same way, so nothing of them is removed either.
func Undoing(actions []Action) []Action {
	return slices.DeleteFunc(actions, func(a Action) bool { return a.Kind != PutBack })
}

// Removes reports whether the action empties what lies in quarantine.
func (a Action) Removes() bool { return a.Kind == Strip || a.Kind == Purge }

// Unmounted leaves of a batch what a scan of the mounts, made immediately before, lets go: since
// the look read them it has read directories, and batches before this one have taken their time.
// What is mounted by now, or not known, stays for the next look.
func (b Batch) Unmounted(mounts map[parsers.PodUID]Fact) Batch {
	return Batch{Actions: slices.DeleteFunc(slices.Clone(b.Actions), func(a Action) bool {
		return a.Removes() && mounts[a.UID].Truth != No
	})}
}

// Moved reports whether something went to quarantine that a mount may have gone along with.
func (o Outcome) Moved() bool {
	return (o.Action.Kind == Park || o.Action.Kind == Clear) && o.Result == Done
}

// PutBacks are the way back of what was just moved and a scan of the mounts hits, now that no
// path leads there: a mount that came between look and rename was carried along. A scan that
// failed counts as a hit.
func PutBacks(moved []Outcome, mounts map[parsers.PodUID]Fact) []Batch {
	var actions []Action
	for _, o := range moved {
		if f := mounts[o.Action.UID]; f.Truth != No {
			actions = append(actions, back(o, f))
		}
	}
	return Batches(actions)
}

// back is the way back of what was just taken of a pod that the mount scan hit, or of which
// it could not say that nothing is mounted.
func back(o Outcome, mounted Fact) Action {
	why := Why{ReasonMounted, mounted.Detail}
	if mounted.Truth != Yes {
		why = Why{ReasonMountsUnknown, unknownDetail(FactMounted, mounted)}
	}
	id := o.Action.ID
	if o.Action.Kind == Clear {
		id = o.ID
	}
	return Action{
		Kind: PutBack, UID: o.Action.UID, Entry: o.Action.Entry, ID: id, Leaf: o.Action.Leaf,
		Why: []Why{why}, Evidence: o.Action.Evidence,
	}
}

const breakerOpen = "a parked pod turned out to live; orphan-reaper quarantine resume lets it go on"

// Gate keeps what the rules would let go where something stops all enforcing.
func (v *Verdict) Gate(n Node, g Gate, r Rules) {
	if why, stopped := gate(n, g, r); stopped && v.Decision == Reap {
		v.keep(Keep, why.Reason, why.Detail)
	}
}

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
