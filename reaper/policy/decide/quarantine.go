package decide

import (
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// InWork lists the quarantine entries that a pass may take further, and those that rest:
// their pods may live again for as long as anything of them is left.
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

// freeEntry names a pod in quarantine: by the time, or by the next number that no entry has.
// The clock may have been set back, and a pod may come twice in one second; an intent under
// the name of another entry would take its place in the ledger.
func freeEntry(uid parsers.PodUID, kind policy.ActionKind, at int64, taken func(string) bool) string {
	suffix := ""
	if kind == policy.Clear {
		suffix = policy.LeafSuffix
	}
	for ; ; at++ {
		name := string(uid) + "." + strconv.FormatInt(at, 10) + suffix
		if !taken(name) {
			return name
		}
	}
}
