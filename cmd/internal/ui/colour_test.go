package ui

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestColours: a pod has one word and one colour in scan and in sweep: red for what failed or needs a person, yellow for
// what waits, green for what was or can be removed, and none for the rest.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		verdict       policy.Decision
		reason        policy.Reason
		outcome, word string // of sweep
		scan, sweep   Colour
	}{
		{policy.Reap, "", outcomeRemoved, outcomeRemoved, Green, Green},
		{policy.Reap, "", outcomeQuarantined, outcomeQuarantined, Green, Green},
		{policy.Reap, "", outcomeWouldRemove, outcomeWouldRemove, Green, Green},
		{policy.Reap, "", outcomeFailed, outcomeFailed, Green, Red},
		{policy.Wait, policy.ReasonHold, outcomeKept, "wait", Yellow, Yellow},
		{policy.Keep, policy.ReasonMounted, outcomeKept, outcomeKept, Red, Red},
		{policy.Keep, policy.ReasonRestored, outcomeKept, outcomeKept, "", ""},
		{policy.Keep, policy.ReasonSandbox, outcomeKept, wordAlive, "", ""},
	} {
		pod := podView{UID: "a", Verdict: c.verdict, Outcome: c.outcome, evidence: &policy.Evidence{}}
		if c.reason != "" {
			pod.Why, pod.Reasons = []policy.Why{{Reason: c.reason}}, []policy.Reason{c.reason}
		}
		person := pod.outlook() == policy.OutlookPerson
		if got := colourOf((&Report{}).word(&pod), person); got != c.scan {
			t.Errorf("scan shows %s for %s in %q, want %q", c.verdict, c.reason, got, c.scan)
		}
		word := (&Report{show: Show{Swept: true}}).word(&pod)
		if got := colourOf(word, person); word != c.word || got != c.sweep {
			t.Errorf("sweep shows %s for %s as %s in %q, want %s in %q", c.outcome, c.reason, word, got, c.word, c.sweep)
		}
	}
	conflict := Entry{Phase: policy.PhaseConflict, Purge: purgePerson}
	waiting := Entry{Phase: policy.PhaseParked, Purge: purgeConfirming}
	held := Entry{Phase: policy.PhaseConfirmed, Purge: purgeRetention}
	if conflict.colour() != Red || waiting.colour() != Yellow || held.colour() != "" {
		t.Errorf("the quarantine shows %q, %q and %q", conflict.colour(), waiting.colour(), held.colour())
	}
}
