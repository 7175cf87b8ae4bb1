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
