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

// toldFact is a row of the table of facts: the reasons that it gives, and whether it says that the pod waits.
type toldFact struct {
	reasons []string
	waits   bool
}

// toldFacts reads the table of facts in docs/how-it-decides.md.
func toldFacts(page string) map[string]toldFact {
	_, table, _ := strings.Cut(page, "\n| fact | read from |")
	table, _, _ = strings.Cut(table, "\n\n")
	told := map[string]toldFact{}
	for _, row := range factRow.FindAllStringSubmatch(table, -1) {
		var reasons []string
		for _, m := range docReason.FindAllStringSubmatch(row[3], -1) {
			reasons = append(reasons, m[1])
		}
		for _, m := range docWord.FindAllStringSubmatch(row[1], -1) {
			told[m[1]] = toldFact{reasons, strings.Contains(row[2], "the pod waits")}
		}
	}
	return told
}

// TestFactsTold: the table of facts in docs/how-it-decides.md has each rule with its reasons, and no other.
func TestFactsTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-decides.md")
	if err != nil {
		t.Fatal(err)
	}
	told := toldFacts(string(page))
	if len(told) != len(rules) {
		t.Errorf("%d facts are told, and there are %d rules", len(told), len(rules))
	}
	together := map[string][]Reason{} // what a row that has several facts may give: the reasons of them all
	for _, r := range rules {
		key := strings.Join(told[r.fact.String()].reasons, " ")
		together[key] = append(together[key], r.alive, r.unknown)
	}
	for _, r := range rules {
		row, ok := told[r.fact.String()]
		if !ok {
			t.Errorf("no row has %s", r.fact)
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
			t.Errorf("%s: the page says that the pod waits: %t", r.fact, row.waits)
		}
	}
}
