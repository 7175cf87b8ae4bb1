package ui

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestReasonTable: every reason of the closed list is explained, once, and no other.
func TestReasonTable(t *testing.T) {
	explained := map[policy.Reason]int{}
	for _, a := range Reasons {
		explained[a.Reason]++
		if !strings.HasSuffix(a.Means, ".") || !strings.HasSuffix(strings.TrimRight(a.Todo, "`"), ".") {
			t.Errorf("%s: no whole sentences: %q, %q", a.Reason, a.Means, a.Todo)
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

// TestReasonsDoc: docs/reasons.md is generated from the table.
func TestReasonsDoc(t *testing.T) {
	testkit.Golden(t, "../../../docs/reasons.md", reasonsDoc())
}

// TestAdvice: the advice for one pod has its UID and no mark, and each brief form is one sentence with an
// action.
func TestAdvice(t *testing.T) {
	for _, r := range policy.Reasons() {
		text, brief := AdviceOf(r, commandUID).Advice, BriefOf(r)
		if strings.Contains(text+brief.Do, "`") || strings.Contains(text, "explain UID") || strings.Contains(text, "forget UID") {
			t.Errorf("%s: %q, %q", r, text, brief.Do)
		}
		if !strings.HasSuffix(brief.Means, ".") || brief.Do == "" {
			t.Errorf("%s: %+v", r, brief)
		}
	}
	if text := AdviceOf(policy.ReasonRestored, commandUID).Advice; !strings.Contains(text, "orphan-reaper quarantine forget "+commandUID+".") {
		t.Error(text)
	}
}
