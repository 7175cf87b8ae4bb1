package policy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	factRow   = regexp.MustCompile("(?m)^\\| (`[^|]+) \\|[^|]*\\|([^|]*)\\|([^|]*)\\|$")
	docWord   = regexp.MustCompile("`([a-z_]+)`")
	docReason = regexp.MustCompile("`([a-z-]+)`")
)

// factDoc is a row of the table of facts: its reasons, and whether the pod waits.
type factDoc struct {
	reasons []string
	waits   bool
}

// documentedFacts parses the table of facts in docs/how-it-decides.md.
func documentedFacts(page string) map[string]factDoc {
	_, table, _ := strings.Cut(page, "\n| fact | read from |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]factDoc{}
	for _, row := range factRow.FindAllStringSubmatch(table, -1) {
		var reasons []string
		for _, m := range docReason.FindAllStringSubmatch(row[3], -1) {
			reasons = append(reasons, m[1])
		}
		for _, m := range docWord.FindAllStringSubmatch(row[1], -1) {
			rows[m[1]] = factDoc{reasons, strings.Contains(row[2], "the pod waits")}
		}
	}
	return rows
}

// TestFactsTable checks that the table of facts in docs/how-it-decides.md has exactly the rules, each with its reasons.
func TestFactsTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-decides.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := documentedFacts(string(page))
	if len(rows) != len(rules) {
		t.Errorf("the table has %d facts, and there are %d rules", len(rows), len(rules))
	}
	together := map[string][]Reason{} // the reasons of all facts that share a row
	for _, r := range rules {
		key := strings.Join(rows[r.fact.String()].reasons, " ")
		together[key] = append(together[key], r.alive, r.unknown)
	}
	for _, r := range rules {
		row, ok := rows[r.fact.String()]
		if !ok {
			t.Errorf("no row for %s", r.fact)
			continue
		}
		for _, reason := range []Reason{r.alive, r.unknown} {
			if !slices.Contains(row.reasons, string(reason)) {
				t.Errorf("%s does not give %s: %v", r.fact, reason, row.reasons)
			}
		}
		for _, reason := range row.reasons {
			if !slices.Contains(together[strings.Join(row.reasons, " ")], Reason(reason)) {
				t.Errorf("%s gives %s, which no rule of it has", r.fact, reason)
			}
		}
		if (r.decision == Wait) != row.waits {
			t.Errorf("%s: the page has \"the pod waits\": %t", r.fact, row.waits)
		}
	}
}
