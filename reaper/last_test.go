package reaper

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestLastQuestion checks that a pod that comes back between the look and the rename is not renamed, whichever fact
// shows it, nor one of which a fact has become unknown.
func TestLastQuestion(t *testing.T) {
	for _, fact := range policy.LastFacts() {
		for _, truth := range []policy.Truth{policy.Yes, policy.Unknown} {
			n, rules, moves := newFakeNode(), testRules, 0
			rules.Hold = 0
			r := n.reaper(t, rules)
			n.add(1, nil)
			n.still = func() {
				if p := n.pods[uidOf(1)]; p != nil {
					moves = len(n.quarantine)
					p.facts = map[policy.FactName]policy.Truth{fact: truth}
				}
			}
			rep := mustPass(t, r, n.claim(1))
			if fact == policy.FactKubeletLists && truth == policy.Unknown {
				continue // most nodes lack this list, so unknown keeps nothing
			}
			if len(n.quarantine) != 0 || moves != 0 || n.BreakerOpen() {
				t.Errorf("%s %s: %d directories were moved, breaker open %t: %+v", fact, truth, len(n.quarantine), n.BreakerOpen(), rep.Outcomes)
			}
			if len(rep.Outcomes) != 1 || !rep.Outcomes[0].Withdrawn || !rep.Pending {
				t.Errorf("%s %s: %+v, pending %t", fact, truth, rep.Outcomes, rep.Pending)
			}
		}
	}
}

// TestLastQuestionAfterAFailure checks that a pod that comes to life while the fsync after its rename fails goes back
// in the same pass: the next pass may be minutes away.
func TestLastQuestionAfterAFailure(t *testing.T) {
	n, rules := newFakeNode(), testRules
	rules.Hold, n.unsynced = 0, true
	n.add(1, nil)
	n.still = func() {
		for _, p := range n.quarantine {
			p.facts = map[policy.FactName]policy.Truth{policy.FactCgroup: policy.Yes}
		}
	}
	rep := mustPass(t, n.reaper(t, rules), n.claim(1))
	if len(rep.Outcomes) == 0 || rep.Outcomes[0].Result != policy.Failed {
		t.Fatalf("the park did not fail: %+v", rep.Outcomes)
	}
	if n.pods[uidOf(1)] == nil || !n.BreakerOpen() {
		t.Errorf("back %t, breaker open %t: %v", n.pods[uidOf(1)] != nil, n.BreakerOpen(), n.kinds(uidOf(1)))
	}
}

// TestLastQuestionUnanswered checks that a pod about which the last question has no answer is not moved.
func TestLastQuestionUnanswered(t *testing.T) {
	for _, rules := range []policy.Rules{{}, {Waive: true}} {
		move := policy.Action{Kind: policy.Park, UID: uidOf(1), Evidence: &policy.Evidence{Name: "1"}}
		still, withdrawn := policy.Batch{Actions: []policy.Action{move}}.StillDead(nil, policy.Node{}, rules)
		if len(still.Actions) != 0 || len(withdrawn) != 1 || !withdrawn[0].Withdrawn {
			t.Errorf("%+v: %v goes, %v is withdrawn", rules, still.Actions, withdrawn)
		}
	}
}
