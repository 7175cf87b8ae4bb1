package ui

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestColours: a pod has one word and one colour in scan and in sweep: red for what failed or needs a person, yellow for
// what waits, green for what went or may go, and none for the rest.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		verdict policy.Decision
		reason  policy.Reason
		outcome string
		scan    Colour
		sweep   Colour
		word    string // of sweep
	}{
		{policy.Reap, "", outcomeRemoved, green, green, outcomeRemoved},
		{policy.Reap, "", outcomeQuarantined, green, green, outcomeQuarantined},
		{policy.Reap, "", outcomeWouldRemove, green, green, outcomeWouldRemove},
		{policy.Reap, "", outcomeFailed, green, red, outcomeFailed},
		{policy.Wait, policy.ReasonHold, outcomeKept, Yellow, Yellow, "wait"},
		{policy.Keep, policy.ReasonMounted, outcomeKept, red, red, outcomeKept},
		{policy.Keep, policy.ReasonRestored, outcomeKept, "", "", outcomeKept},
		{policy.Keep, policy.ReasonSandbox, outcomeKept, "", "", outcomeKept},
	} {
		pod := podView{UID: "a", Verdict: c.verdict, Outcome: c.outcome, evidence: &policy.Evidence{}}
		if c.reason != "" {
			pod.Why, pod.Reasons = []policy.Why{{Reason: c.reason}}, []policy.Reason{c.reason}
		}
		if _, got := verdictWord(&pod); got != c.scan {
			t.Errorf("scan shows %s for %s in %q, want %q", c.verdict, c.reason, got, c.scan)
		}
		if word, got := podEnd(&pod); word != c.word || got != c.sweep {
			t.Errorf("sweep shows %s for %s as %s in %q, want %s in %q", c.outcome, c.reason, word, got, c.word, c.sweep)
		}
	}
	conflict := Entry{Phase: policy.PhaseConflict, Purge: purgePerson}
	waiting := Entry{Phase: policy.PhaseParked, Purge: purgeConfirming}
	lies := Entry{Phase: policy.PhaseConfirmed, Purge: purgeRetention}
	if conflict.colour() != red || waiting.colour() != Yellow || lies.colour() != "" {
		t.Errorf("the quarantine shows %q, %q and %q", conflict.colour(), waiting.colour(), lies.colour())
	}
}
