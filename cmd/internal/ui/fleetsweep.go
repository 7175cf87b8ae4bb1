package ui

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// FleetSweep is the result of requesting a look from the nodes of a fleet.
type FleetSweep struct {
	Nodes    int            `json:"nodes"`
	DryRun   bool           `json:"dry_run"`
	Asked    []FleetAsked   `json:"asked"`
	Silent   []FleetSilence `json:"silent"`
	NotAsked []string       `json:"not_asked"`
	Breakers int            `json:"breakers"`
	Open     []string       `json:"open"`             // the nodes whose breaker is open
	Result   *FleetResult   `json:"result,omitempty"` // of all nodes, if the command waited for their looks

	hosts map[string]string // by URL, for addresses that were given without a node's name
}

// FleetAsked is one node that looks now. In a dry run Look is its last look.
type FleetAsked struct {
	Node        string `json:"node"`
	URL         string `json:"url"`
	CallsItself string `json:"calls_itself,omitempty"` // another name than Node
	report.Answer
	// Result is nil if the command did not wait for the end of the look.
	Result *FleetResult `json:"result,omitempty"`
}

// FleetResult is what a look did, and the pods that it left. In a dry run nothing was done.
type FleetResult struct {
	Parked  int   `json:"parked"`
	Removed int   `json:"removed"`
	PutBack int   `json:"put_back"`
	Bytes   int64 `json:"bytes"` // freed
	Reap    int   `json:"reap"`  // can still be removed
	Wait    int   `json:"wait"`
	Kept    int   `json:"kept"`
}

// NewFleetSweep returns an empty result.
func NewFleetSweep(nodes int) *FleetSweep {
	return &FleetSweep{Nodes: nodes, Asked: []FleetAsked{}, Silent: []FleetSilence{}, NotAsked: []string{}, Open: []string{}, hosts: map[string]string{}}
}

// Add adds the answer of one node.
func (f *FleetSweep) Add(at report.Target, s *report.Swept, err error) {
	switch {
	case errors.Is(err, report.ErrNotAsked):
		f.NotAsked = append(f.NotAsked, at.Node)
		return
	case err != nil:
		f.Silent = append(f.Silent, FleetSilence{at.Node, at.URL, report.Short(err.Error())})
		if s.BreakerOpen { // it answered, and the end of its look is unknown
			f.Open = append(f.Open, at.Node)
		}
		return
	}
	node, other := at.Name(s.Node)
	if !at.Named {
		f.hosts[at.URL] = at.Node
	}
	a := FleetAsked{node, at.URL, other, s.Answer, nil}
	if r := s.Ended; r != nil {
		was, c := s.Done, r.Counts
		a.Result = &FleetResult{
			Parked: r.Done.Parked - was.Parked, Removed: r.Done.Removed - was.Removed, PutBack: r.Done.PutBack - was.PutBack,
			Bytes: r.Done.Bytes - was.Bytes, Reap: c.Reap, Wait: c.Wait, Kept: c.Keep,
		}
		if f.Result == nil {
			f.Result = &FleetResult{}
		}
		f.Result.add(a.Result)
	}
	f.Asked = append(f.Asked, a)
}

// AddReport adds the last look of a node, for a dry run.
func (f *FleetSweep) AddReport(at report.Target, r *report.Report, err error) {
	f.DryRun = true
	s := &report.Swept{}
	if err == nil {
		s.Answer = report.Answer{Node: r.Node, Look: r.Look, BreakerOpen: r.BreakerOpen, Done: r.Done}
		s.Ended = r
		if r.BreakerOpen {
			f.Breakers++
		}
	}
	f.Add(at, s, err)
}

func (r *FleetResult) add(o *FleetResult) {
	r.Parked += o.Parked
	r.Removed += o.Removed
	r.PutBack += o.PutBack
	r.Bytes += o.Bytes
	r.Reap += o.Reap
	r.Wait += o.Wait
	r.Kept += o.Kept
}

// NeedsPerson reports whether a node has an open breaker, did not answer or was not asked.
func (f *FleetSweep) NeedsPerson() bool { return len(f.Silent)+len(f.NotAsked)+f.Breakers > 0 }

// Sort sorts the nodes, whose order must not depend on which one answered first.
func (f *FleetSweep) Sort() {
	var nodes []namedNode
	for i := range f.Asked {
		nodes = append(nodes, namedNode{&f.Asked[i].Node, &f.Asked[i].CallsItself, f.Asked[i].URL})
	}
	distinguish(nodes, f.hosts, append(names(f.Silent), f.NotAsked...))
	slices.SortStableFunc(f.Asked, func(a, b FleetAsked) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(f.NotAsked)
	for _, a := range f.Asked {
		if a.BreakerOpen {
			f.Open = append(f.Open, a.Node)
		}
	}
	slices.Sort(f.Open)
}

// FleetSweep writes which nodes look now, the results, and on which nodes the breaker is open.
func (p *Printer) FleetSweep(f *FleetSweep) {
	nodes := fmt.Sprintf("%s of %s ", human.Thousands(len(f.Asked)), human.Count(f.Nodes, "node"))
	switch r := f.Result; {
	case f.DryRun && r != nil:
		p.Para("", fmt.Sprintf("%s%s, and none was asked to look. %s can be removed, %s wait, %s are kept.", nodes, human.Plural(len(f.Asked), "answers", "answer"),
			human.Count(r.Reap, "pod"), human.Thousands(r.Wait), human.Thousands(r.Kept)))
	case r != nil:
		p.Para("", fmt.Sprintf("%s%s looked: %s moved to quarantine, %s removed there, %s put back; %s freed. %s can be removed later, %s wait, %s are kept.",
			nodes, human.Plural(len(f.Asked), "has", "have"), human.Count(r.Parked, "pod"), human.Thousands(r.Removed), human.Thousands(r.PutBack), human.Size(r.Bytes),
			human.Thousands(r.Reap), human.Thousands(r.Wait), human.Thousands(r.Kept)))
	default:
		p.Para("", nodes+"look now.")
	}
	if n := len(f.NotAsked); n > 0 {
		p.Para("", fmt.Sprintf("Stopped: on %s the breaker is open, which is more than --max-breakers allows. %s were not asked. Find out why "+
			"parked pods turn out to be alive before you continue.", human.Count(f.Breakers, "node"), human.Count(n, "node")))
	}
	p.fleetResults(f)
	p.breakers(f)
	p.silent(f.Silent, false)
}

func (p *Printer) breakers(f *FleetSweep) {
	if len(f.Open) > 0 {
		p.Heading("NODES WHOSE BREAKER IS OPEN: orphan-reaper quarantine list, on that node, shows the pod that turned out to be alive")
		p.Para("", clean.Text(strings.Join(f.Open, ", ")))
	}
}

// fleetResults writes the results of nodes on which something is left or was done.
func (p *Printer) fleetResults(f *FleetSweep) {
	head, rows := human.Pad("NODE", fleetWidth)+fmt.Sprintf("%8s%9s%10s%6s%6s%6s%10s", "PARKED", "REMOVED", "PUT BACK", "REAP", "WAIT", "KEPT", "FREED"), 0
	for _, a := range f.Asked {
		r := a.Result
		if r == nil || *r == (FleetResult{}) {
			continue
		}
		if rows++; rows == 1 {
			p.Heading(head)
		}
		if rows <= mostPodRows {
			p.Printf("%s%8d%9d%10d%6d%6d%6d%10s\n", human.Pad(human.Short(clean.Text(a.Node), fleetWidth-1), fleetWidth),
				r.Parked, r.Removed, r.PutBack, r.Reap, r.Wait, r.Kept, human.Size(r.Bytes))
		}
	}
	if more := rows - mostPodRows; more > 0 {
		p.Printf("… and %s: -o json\n", human.Count(more, "more node"))
	}
}
