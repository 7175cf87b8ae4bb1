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
	Proving bool            // what follows counts on Remove to prove the first pod dead
	Moves   []policy.Action // out of the pods directory, to quarantine
}

// pace is what slows the parking of pods down, independent of the evidence.
type pace struct {
	proven bool // one pod has been confirmed dead since the start
	quiet  bool // the first pod parked since the start has shown no sign of life for HoldReported
	inWork int  // pods that are parked and not yet proved dead, or cleared and not yet finished by their kubelet
}

// moves turns the verdicts on pods in place into actions, or adds to them why none is planned. entry returns a new name in
// quarantine. A pod whose leaves are cleared counts as one that is parked: it was judged from the same evidence.
func moves(pods []policy.Judged, permit policy.Permit, g pace, r policy.Rules, entry func(parsers.PodUID, policy.ActionKind) string) []policy.Action {
	most := len(pods)
	if r.MaxPerLook > 0 {
		most = min(most, r.MaxPerLook)
	}
	limit := most
	if !g.proven {
		limit = min(most, max(0, 1-g.inWork))
	}
	var actions []policy.Action
	planned := 0
	for p := range policy.At(pods, policy.InPlace) {
		if p.Gate(permit); !p.Goes() {
			continue
		}
		if planned >= g.limit(&p.Evidence, limit, most) {
			p.WaitFor(0, policy.ReasonLimit, limitDetail(&p.Evidence, g, r))
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

// limit returns how many pods may be planned when it is the turn of this one. A pod that its kubelet itself released need
// not wait until the first one is confirmed, but only as long as its hold is: that guards against evidence that is wrong
// for all pods alike, and the kubelet's report is evidence of its own.
func (g *pace) limit(e *policy.Evidence, slow, most int) int {
	if g.quiet && e.ReleasedByKubelet() {
		return most
	}
	return slow
}

func limitDetail(e *policy.Evidence, g pace, r policy.Rules) string {
	if !g.proven {
		if r.HoldReported > 0 && e.ReleasedByKubelet() {
			return fmt.Sprintf("the first pod after a start must be in quarantine for %s without a sign of life before this one follows", r.HoldReported)
		}
		return "the first pod after a start is confirmed before the rest"
	}
	return fmt.Sprintf("at most %d in one look", r.MaxPerLook)
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
