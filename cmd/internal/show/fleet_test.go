package show

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// TestFleet has a fleet of which more nodes have failed than a screen has rows: each is named, with an error that a node has
// chosen, and of the others there are only the worst.
func TestFleet(t *testing.T) {
	f := fleet.Fleet{Operator: true, Sums: fleet.Sums{Nodes: 1000, Failed: 60, Breakers: 1, Versions: map[string]int{"v1\x1b[2J": 940}}}
	f.Sums.Reasons = map[judge.ReasonName]int64{judge.IsMounted: 7}
	add := func(name string, n fleet.Node) {
		n.Node, n.Pass = name, 1
		f.Nodes = append(f.Nodes, n)
	}
	add("broken-1", fleet.Node{Head: fleet.Head{Breaker: true}})
	for i := range 60 {
		add(fmt.Sprintf("failed-%02d", i), fleet.Node{Error: "the answer is \x1b[31mred"})
	}
	for i := range 939 {
		add(fmt.Sprintf("good-%03d", i), fleet.Node{Head: fleet.Head{Stopped: judge.ModeObserve}})
	}
	var list, sweep strings.Builder
	for _, err := range []error{FleetList(&list, f), FleetSweep(&sweep, f, false)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{list.String(), sweep.String()} {
		if strings.Contains(text, "\x1b") || strings.Count(text, "\n  failed-") != 60 || !strings.Contains(text, "broken-1") {
			t.Errorf("a screen without each failed node, or with control characters:\n%s", text)
		}
		for line := range strings.Lines(text) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > columns {
				t.Errorf("a line is too long: %q", line)
			}
		}
	}
	if strings.Count(list.String(), "\n  good-") != mostNodes || strings.Contains(sweep.String(), "good-") || !strings.Contains(list.String(), "mounted 7") {
		t.Errorf("%s\n%s", list.String(), sweep.String())
	}
}
