package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// mostNodes is how many nodes of `fleet list` have a row, besides those that failed or whose circuit breaker is open.
const mostNodes = 20

// FleetList prints the sums over many nodes, and the worst nodes.
func FleetList(w io.Writer, f fleet.Fleet) error {
	p := &page{}
	p.para("", "%s", nodes(&f.Sums))
	p.sums(&f.Sums)
	p.nodeTable(f.Nodes, mostNodes)
	p.onNodes(&f)
	return p.writeTo(w)
}

// FleetSweep prints which nodes scan or have scanned, and which have not.
func FleetSweep(w io.Writer, f fleet.Fleet, waited bool) error {
	p := &page{}
	p.para("", "%s", nodes(&f.Sums))
	if waited {
		p.para("", "The scans of the nodes that answered have ended. What they moved is in quarantine for the time of confirm.")
		p.sums(&f.Sums)
	} else {
		p.para("", "The nodes that answered scan now, as they do by themselves. `--wait` waits for the end of the scans.")
	}
	p.nodeTable(f.Nodes, 0)
	p.onNodes(&f)
	return p.writeTo(w)
}

// nodes returns how many nodes were asked, and what became of them.
func nodes(s *fleet.Sums) string {
	words := []string{count(s.Nodes, "node", "nodes") + " asked", fmt.Sprintf("%d answered", s.Nodes-s.Failed)}
	add := func(n int, text string) {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, text))
		}
	}
	add(s.Failed, "failed")
	add(s.Breakers, "with an open circuit breaker")
	add(s.OperatorNodes, "need you")
	add(s.Observe, "observe and change nothing")
	return strings.Join(words, ", ") + "."
}

// sums writes the sums of all nodes that have answered.
func (p *page) sums(s *fleet.Sums) {
	rows := [][]string{
		{"pods", fmt.Sprintf("%d alive, %d kept, %d waiting, %d to be moved; %d hidden behind one that is kept", s.Alive, s.Keep, s.Wait, s.Remove, s.Hidden)},
		{"quarantine", fmt.Sprintf("%d entries, %s counted", s.Quarantined, size(s.Bytes))},
		{"CNI", fmt.Sprintf("%d files: %d stale, %d waiting, %d unknown; %d address ranges are full", s.CNIFiles, s.CNIStale, s.CNIWaiting, s.CNIUnknown, s.FullRanges)},
	}
	if text := list(s.Reasons); text != "" {
		rows = append(rows, []string{"reasons", text})
	}
	if s.Problems > 0 {
		rows = append(rows, []string{"problems", fmt.Sprintf("%d things could not be read or written", s.Problems)})
	}
	rows = append(rows, []string{"versions", list(s.Versions)})
	p.WriteString("\n")
	p.table(rows)
}

// list returns what was counted, the largest number first.
func list[K ~string, N int | int64](counted map[K]N) string {
	keys := slices.SortedFunc(maps.Keys(counted), func(a, b K) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
	words := make([]string, 0, len(keys))
	for _, k := range keys[:min(len(keys), mostRows)] {
		words = append(words, fmt.Sprintf("%s %d", safe(string(k)), counted[k]))
	}
	return strings.Join(words, ", ")
}

// nodeTable writes a row for each node that failed or whose circuit breaker is open, and for up to most others, the worst
// first.
func (p *page) nodeTable(all []fleet.Node, most int) {
	rows := [][]string{{"NODE", "NEED YOU", "KEPT", "HIDDEN", "QUARANTINE", "STATE"}}
	others := 0
	for _, n := range all {
		if n.Error == "" && n.Failed == "" && !n.Breaker {
			if others == most {
				break // they are sorted: no node after this one has failed
			}
			others++
		}
		row := []string{short(safe(n.Node), 24), "-", "-", "-", "-", state(&n)}
		if n.Error == "" {
			s := n.Summary
			row = []string{row[0], fmt.Sprint(s.Operator), fmt.Sprint(s.Keep), fmt.Sprint(s.Hidden), fmt.Sprint(s.Quarantined), state(&n)}
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return
	}
	p.WriteString("\n")
	p.table(rows)
	if more := len(all) - len(rows) + 1; more > 0 && most > 0 {
		p.para("  ", "… and %d better ones: -o json has all of them", more)
	}
}

// state returns what is to be said of a node.
func state(n *fleet.Node) string {
	switch {
	case n.Error != "":
		return "failed: " + safe(n.Error)
	case n.Breaker:
		return "circuit breaker open"
	case n.Failed != "":
		return "its last pass failed: " + safe(n.Failed)
	case n.Pass == 0:
		return "its first scan has not ended"
	case n.Stopped == judge.ModeObserve:
		return "observes"
	case n.Stopped != "":
		return "changes nothing: " + safe(string(n.Stopped))
	}
	return safe(n.Mode)
}

// onNodes writes what the operator does.
func (p *page) onNodes(f *fleet.Fleet) {
	if !f.Operator {
		return
	}
	p.heading("* What only you do")
	if f.Sums.Breakers+f.Sums.OperatorNodes > 0 {
		p.item("  - ", "On each node that needs you, or whose circuit breaker is open:")
		p.commands("orphan-reaper doctor")
	}
	if f.Sums.Failed > 0 {
		p.item("  - ", "For each node that failed, repair what its error names: its daemon goes on by itself, and what needs you there is not shown.")
	}
}
