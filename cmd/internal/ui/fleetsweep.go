package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// FleetSweep is what became of asking the nodes of a fleet for a look.
type FleetSweep struct {
	Nodes    int            `json:"nodes"`
	Asked    []FleetAsked   `json:"asked"`
	Silent   []FleetSilence `json:"silent"`
	NotAsked []string       `json:"not_asked"`
	Breakers int            `json:"breakers"`

	hosts map[string]string // of the addresses that the operator gave no name
}

// FleetAsked is one node that looks now.
type FleetAsked struct {
	Node        string `json:"node"`
	URL         string `json:"url"`
	CallsItself string `json:"calls_itself,omitempty"` // another name than Node
	report.Answer
}

// NewFleetSweep is empty.
func NewFleetSweep(nodes int) *FleetSweep {
	return &FleetSweep{Nodes: nodes, Asked: []FleetAsked{}, Silent: []FleetSilence{}, NotAsked: []string{}, hosts: map[string]string{}}
}

// Add takes in what one node said.
func (f *FleetSweep) Add(at report.Target, a *report.Answer, asked bool, err error) {
	switch {
	case !asked:
		f.NotAsked = append(f.NotAsked, at.Node)
	case err != nil:
		f.Silent = append(f.Silent, FleetSilence{at.Node, at.URL, report.Short(err.Error())})
	default:
		node, other := at.Name(a.Node)
		if !at.Named {
			f.hosts[at.URL] = at.Node
		}
		f.Asked = append(f.Asked, FleetAsked{node, at.URL, other, *a})
	}
}

// tellApart does as FleetList's.
func (f *FleetSweep) tellApart() {
	names := newNames(f.Silent)
	for i := range f.Asked {
		names[f.Asked[i].Node]++
	}
	for _, node := range f.NotAsked {
		names[node]++
	}
	for i := range f.Asked {
		a := &f.Asked[i]
		names.tell(&a.Node, &a.CallsItself, f.hosts[a.URL])
	}
}

// Sort brings the nodes into an order that does not depend on who answered first.
func (f *FleetSweep) Sort() {
	f.tellApart()
	slices.SortStableFunc(f.Asked, func(a, b FleetAsked) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(f.NotAsked)
}

// FleetSweep is fleet sweep for a person.
func (p *Printer) FleetSweep(f *FleetSweep) {
	p.Para("", fmt.Sprintf("%s of %s look now.", human.Thousands(len(f.Asked)), human.Count(f.Nodes, "node")))
	if n := len(f.NotAsked); n > 0 {
		p.Para("", fmt.Sprintf("Stopped: on %s the breaker is open, which is more than --max-breakers allows. %s were not asked. Find out why "+
			"parked pods turn out to be alive before you continue.", human.Count(f.Breakers, "node"), human.Count(n, "node")))
	}
	if len(f.Silent) > 0 {
		p.Heading("NODES THAT DID NOT ANSWER")
		for _, s := range f.Silent {
			p.Item("", clean.Text(s.Node), 28, Red, clean.Text(s.Error))
		}
	}
}
