package ui

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestOutcomeWords holds the closed list of outcomes to what each end of an action means.
func TestOutcomeWords(t *testing.T) {
	results := []policy.Result{policy.Done, policy.Gone, policy.Refused, policy.Partly, policy.Failed, policy.Conflict}
	want := map[policy.ActionKind][]string{
		policy.Park:    {"quarantined", "removed", "kept", "quarantined", "failed", "kept"},
		policy.Clear:   {"quarantined", "kept", "kept", "quarantined", "failed", "kept"},
		policy.PutBack: {"kept", "removed", "kept", "quarantined", "failed", "kept"},
		policy.Strip:   {"removed", "removed", "quarantined", "quarantined", "failed", "quarantined"},
		policy.Purge:   {"removed", "removed", "quarantined", "quarantined", "failed", "quarantined"},
	}
	for kind, words := range want {
		for i, result := range results {
			if got := outcomeWord(&policy.Outcome{Action: policy.Action{Kind: kind}, Result: result}); got != words[i] {
				t.Errorf("%s %s: %s, want %s", kind, result, got, words[i])
			}
		}
	}
	for _, c := range []struct {
		residue []policy.Residue
		want    string
	}{
		{nil, outcomeWouldRemove},
		{[]policy.Residue{{Class: contents.ClassSkeleton}, {Class: contents.ClassProjected}}, outcomeWouldRemove},
		{[]policy.Residue{{Class: contents.ClassSkeleton}, {Class: contents.ClassEphemeral}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassData}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassSkeleton, Partial: true}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassProjected, Partial: true}}, outcomeWouldRemove},
	} {
		if got := wouldBecome(c.residue); got != c.want {
			t.Errorf("%v: %s, want %s", c.residue, got, c.want)
		}
	}
}
