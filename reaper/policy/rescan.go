package policy

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

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

// PutBacks put back what was just moved and a scan of the mounts hits, now that no
// path leads there: a mount that came between look and rename was carried along. A scan that
// failed counts as a hit.
func PutBacks(moved []Outcome, mounts map[parsers.PodUID]Fact) []Batch {
	var actions []Action
	for _, o := range moved {
		if f := mounts[o.Action.UID]; f.Truth != No {
			actions = append(actions, putBack(o, f))
		}
	}
	return Batches(actions)
}

// putBack is the action that puts back what was just moved of a pod that the mount scan hit, or of
// which the scan could not say that nothing is mounted.
func putBack(o Outcome, mounted Fact) Action {
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
