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

// TestAdvice: the advice for one pod has its UID and no mark, each brief form is one sentence with an action, and each command
// of this program runs as it is copied.
func TestAdvice(t *testing.T) {
	e := &policy.Evidence{UID: commandUID}
	texts := []string{Halted}
	for _, r := range policy.Reasons() {
		text, brief := AdviceOf(r, e).Advice, BriefOf(r)
		if strings.Contains(text+brief.Do, "`") || strings.Contains(text, "explain UID") || strings.Contains(text, "forget UID") {
			t.Errorf("%s: %q, %q", r, text, brief.Do)
		}
		if !strings.HasSuffix(brief.Means, ".") || brief.Do == "" {
			t.Errorf("%s: %+v", r, brief)
		}
		texts = append(texts, text, brief.Do)
	}
	for _, text := range texts {
		if printed := Given("--config 'X'").In(text); strings.Contains(printed+" ", "'X'. ") || strings.Contains(printed, "'X',") ||
			strings.Contains(printed, "'X':") || strings.Contains(printed, "'X';") {
			t.Errorf("punctuation breaks the command when it is copied: %q", printed)
		}
	}
}

// TestAdviceOfAMount: the command to unmount is printed with the UID where it can act, and else what ends the mount.
func TestAdviceOfAMount(t *testing.T) {
	e := &policy.Evidence{UID: commandUID}
	if got := AdviceOf(policy.ReasonMounted, e).Advice; got != MountedBeyond || len((Place{}).Commands(e, policy.ReasonMounted).Then) > 0 {
		t.Error(got)
	}
	e.Unmount = "orphan-reaper unmount " + commandUID
	text, then := AdviceOf(policy.ReasonMounted, e).Advice, (Place{}).Commands(e, policy.ReasonMounted).Then
	if strings.Contains(text, "orphan-reaper unmount") || len(then) != 1 || then[0] != e.Unmount {
		t.Errorf("%q, %q", text, then)
	}
}
