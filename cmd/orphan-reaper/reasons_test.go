package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestReasonTable: every reason of the closed list is explained, once, and no other.
func TestReasonTable(t *testing.T) {
	explained := map[policy.Reason]int{}
	for _, a := range reasonTable {
		explained[a.reason]++
		if !strings.HasSuffix(a.means, ".") || !strings.HasSuffix(strings.TrimRight(a.todo, "`"), ".") {
			t.Errorf("%s: no whole sentences: %q, %q", a.reason, a.means, a.todo)
		}
	}
	for _, r := range policy.Reasons() {
		if explained[r] != 1 {
			t.Errorf("%s is explained %d times", r, explained[r])
		}
		delete(explained, r)
	}
	for r := range explained {
		t.Errorf("%s is explained and no reason", r)
	}
}

// TestReasonsDoc: docs/reasons.md is what the table says.
func TestReasonsDoc(t *testing.T) {
	goldenFile(t, filepath.Join("..", "..", "docs", "reasons.md"), reasonsDoc())
}

// TestOutlook: exit code 3 is for what is kept and neither lives nor was asked for.
func TestOutlook(t *testing.T) {
	for _, c := range []struct {
		decision policy.Decision
		reasons  []policy.Reason
		want     outlook
	}{
		{policy.Reap, nil, quiet},
		{policy.Reap, []policy.Reason{policy.ReasonWaived}, quiet},
		{policy.Wait, []policy.Reason{policy.ReasonHold, policy.ReasonYoung, policy.ReasonInUse}, quiet},
		{policy.Keep, []policy.Reason{policy.ReasonMounted}, look},
		{policy.Keep, []policy.Reason{policy.ReasonMounted, policy.ReasonSandbox}, alive},
		{policy.Keep, []policy.Reason{policy.ReasonSandbox, policy.ReasonMounted}, alive},
		{policy.Keep, []policy.Reason{policy.ReasonCgroup, policy.ReasonKubeletUnknown}, alive},
		{policy.Keep, []policy.Reason{policy.ReasonContainer}, alive},
		{policy.Keep, []policy.Reason{policy.ReasonKubeletUnknown, policy.ReasonKubeletLists}, alive},
		{policy.Keep, []policy.Reason{policy.ReasonSandbox, policy.ReasonSandboxOrphaned}, look},
		{policy.Keep, []policy.Reason{policy.ReasonCgroup, policy.ReasonTerminating, policy.ReasonSandbox}, look},
		{policy.Wait, []policy.Reason{policy.ReasonSandbox, policy.ReasonSandboxOrphaned}, quiet},
		{policy.Keep, []policy.Reason{policy.ReasonObserve}, quiet},
		{policy.Keep, []policy.Reason{policy.ReasonWaived, policy.ReasonObserve}, quiet},
		{policy.Keep, []policy.Reason{policy.ReasonRestored}, quiet},
		{policy.Keep, []policy.Reason{policy.ReasonRestored, policy.ReasonStaged}, look},
		{policy.Keep, []policy.Reason{policy.ReasonInvalidUID}, look},
		{policy.Keep, []policy.Reason{policy.ReasonBreaker}, look},
		{policy.Keep, []policy.Reason{"a-reason-of-a-newer-program"}, look},
	} {
		var why []policy.Why
		for _, r := range c.reasons {
			why = append(why, policy.Why{Reason: r})
		}
		if got := outlookOf(c.decision, why); got != c.want {
			t.Errorf("%s %v: %d, want %d", c.decision, c.reasons, got, c.want)
		}
	}
}
