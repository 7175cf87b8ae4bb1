package advice

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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
	path := filepath.Join("..", "..", "..", "..", "docs", "reasons.md")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(reasonsDoc()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if doc, err := os.ReadFile(path); err != nil || string(doc) != reasonsDoc() {
		t.Errorf("%s is behind, %v; UPDATE_GOLDEN=1 go test writes it anew", path, err)
	}
}
