package decide

import (
	"fmt"
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Plan is what a pass changes, in this order.
type Plan struct {
	// Frozen records the entries that stay in quarantine, since their pods live again. It moves
	// nothing, so mode observe and an open breaker do not forbid it.
	Frozen []policy.Record
	// Breaker records that enforcing stops, since a pod that was judged dead turned out to be alive.
	Breaker *policy.Record
	Undo    []policy.Action // of what lies in quarantine; one that goes back may open the breaker
	Remove  []policy.Action // of what lies in quarantine, never in one batch with Undo
	Moves   []policy.Action // out of the pods directory, to quarantine
}

// moves turns the verdicts on pods in place into actions, or adds to them why none is planned. entry returns a new name in
// quarantine. A pod whose leaves are cleared counts as one that is parked.
func moves(pods []policy.Judged, permit policy.Permit, r policy.Rules, entry func(parsers.PodUID, policy.ActionKind) string) []policy.Action {
	var actions []policy.Action
	planned := 0
	for p := range policy.At(pods, policy.InPlace) {
		if p.Gate(permit); !p.Goes() {
			continue
		}
		if r.MaxPerLook > 0 && planned >= r.MaxPerLook {
			p.WaitFor(0, policy.ReasonLimit, fmt.Sprintf("at most %d in one look", r.MaxPerLook))
			continue
		}
		planned++
		move := policy.Action{UID: p.UID, ID: p.ID, Why: p.Why, Evidence: &p.Evidence}
		for _, leaf := range p.Verdict.Leaves {
			move.Kind, move.Entry, move.Leaf = policy.Clear, entry(p.UID, policy.Clear), leaf
			actions = append(actions, move)
		}
		if p.Decision == policy.Reap {
			move.Kind, move.Entry, move.Leaf = policy.Park, entry(p.UID, policy.Park), ""
			actions = append(actions, move)
		}
	}
	return actions
}

// freeEntry names a pod in quarantine by the time, or by the next number that no entry has: the clock may have been set
// back, and an intent under the name of another entry would replace it in the ledger.
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
