package ui

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
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

// TestReasonsDoc: docs/reasons.md is what the table says.
func TestReasonsDoc(t *testing.T) {
	testkit.Golden(t, "../../../docs/reasons.md", reasonsDoc())
}

// TestTodo: what to do about one pod has its UID, each command whole, and no mark.
func TestTodo(t *testing.T) {
	for _, r := range policy.Reasons() {
		if text := TodoOf(r, commandUID); strings.Contains(text, "`") || strings.Contains(text, "explain UID") || strings.Contains(text, "forget UID") {
			t.Errorf("%s: %q", r, text)
		}
		if text := TextOf(r).Todo; strings.Contains(text, "`") {
			t.Errorf("%s: %q", r, text)
		}
	}
	if text := TodoOf(policy.ReasonRestored, commandUID); !strings.Contains(text, "orphan-reaper quarantine forget "+commandUID+".") {
		t.Error(text)
	}
	for _, line := range human.Wrap(TodoOf(policy.ReasonNetns, commandUID), 30) {
		if strings.HasSuffix(line, " ip") || strings.HasSuffix(line, "netns") {
			t.Errorf("a command is broken: %q", line)
		}
	}
}
