package ui

import (
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// FleetList writes the sums, the nodes on which something lies, the pods that need an operator, and the silent nodes.
func (p *Printer) FleetList(f *FleetList) {
	t := f.Totals
	goes := human.Thousands(t.Reap-t.WouldReap) + " can be removed"
	if t.WouldReap > 0 {
		goes += ", " + human.Thousands(t.WouldReap) + " would be removed in mode enforce"
	}
	p.Para("", fmt.Sprintf("%s asked, %s answered. %s, %s wait, %s are kept; %s need you; %s in quarantine, %s.",
		human.Count(t.Nodes, "node"), human.Thousands(t.Answered), goes, human.Thousands(t.Wait), human.Thousands(t.Keep),
		human.Thousands(t.NeedsPerson), human.Thousands(t.Quarantine), human.Size(t.QuarantineBytes)))
	if t.Observing > 0 {
		p.Para("", human.Count(t.Observing, "node")+" of them: mode observe, or something is missing, so that nothing is removed there.")
	}
	if t.Breakers > 0 {
		p.Para("", fmt.Sprintf("On %s the daemon has stopped: a quarantined pod turned out to be alive. Inspect it there: orphan-reaper quarantine list and "+
			"explain UID; after quarantine resume the daemon removes pods again, this one too.",
			human.Count(t.Breakers, "node")))
	}
	p.fleetSums(f)
	p.fleetNodes(f)
	p.fleetPods(f)
	p.silent(f.Silent, f.scope.All)
}

// Limits of lists.
const (
	mostSilent  = 20 // if there are more, only
	someSilent  = 5  // are named
	mostOfASum  = 10
	mostPodRows = 20
)

// silent writes the nodes that did not answer.
func (p *Printer) silent(silent []FleetSilence, all bool) {
	if len(silent) > 0 {
		p.Heading("NODES THAT ARE SILENT")
	}
	if len(silent) > mostSilent && !all {
		var some []string
		for _, s := range silent[:someSilent] {
			some = append(some, clean.Text(s.Node))
		}
		p.Para("", fmt.Sprintf("%s, such as %s: %s. --all names each.", human.Count(len(silent), "node"), strings.Join(some, ", "), clean.Text(silent[0].Error)))
		return
	}
	for _, s := range silent {
		p.Item("", clean.Text(s.Node), fleetWidth, Red, clean.Text(s.Error))
	}
}

const fleetWidth = 28

func (p *Printer) fleetSums(f *FleetList) {
	by, rows := "", 0
	for _, s := range f.Sums {
		if s.By != by {
			by, rows = s.By, 0
			p.Heading(human.Pad("BY "+strings.ToUpper(clean.Text(by)), fleetWidth) + fmt.Sprintf("%8s%12s", "PODS", "SIZE"))
		}
		if rows++; rows <= mostOfASum || f.scope.All {
			p.Printf("%s%8d%12s\n", human.Pad(human.Short(clean.Text(s.Name), fleetWidth-1), fleetWidth), s.Pods, human.Size(s.Bytes))
		}
	}
}

// rows returns the nodes with something to report, and those of them that are shown.
func (f *FleetList) rows() (all, shown []FleetNode) {
	for _, n := range f.Nodes {
		if c := n.Counts; f.scope.All || c.Reap+c.Wait+c.Keep+c.Quarantine > 0 || n.BreakerOpen || len(n.Missing) > 0 || n.CallsItself != "" {
			all = append(all, n)
		}
	}
	if f.scope.Top > 0 && !f.scope.All {
		return all, all[:min(len(all), f.scope.Top)]
	}
	return all, all
}

func (p *Printer) fleetNodes(f *FleetList) {
	all, rows := f.rows()
	if len(rows) == 0 {
		return
	}
	p.Heading(human.Pad("NODE", fleetWidth) + human.Pad("MODE", 10) +
		fmt.Sprintf("%6s%6s%6s%8s%12s%10s", "REAP", "WAIT", "KEEP", "FOR YOU", "QUARANTINE", "SIZE"))
	for _, n := range rows {
		mode := n.Mode
		switch {
		case n.BreakerOpen:
			mode = "stopped"
		case mode == "enforce" && len(n.Missing) > 0:
			mode = "lacks"
		}
		c := n.Counts
		p.Printf("%s%s%6d%6d%6d%8d%12d%10s\n", human.Pad(human.Short(clean.Text(n.Node), fleetWidth-1), fleetWidth), human.Pad(human.Short(clean.Text(mode), 9), 10),
			c.Reap, c.Wait, c.Keep, c.NeedsPerson, c.Quarantine, human.Size(c.Bytes+c.QuarantineBytes))
		if n.CallsItself != "" {
			p.Para(strings.Repeat(" ", 4), strings.TrimSpace(n.URL+" calls itself "+clean.Text(n.CallsItself)))
		}
		for _, text := range n.Missing {
			p.Para(strings.Repeat(" ", 4), clean.Text(text))
		}
	}
	if more := len(all) - len(rows); more > 0 {
		p.Printf("… and %s: --all, or --top %d\n", human.Count(more, "more node"), len(all))
	}
}

func (p *Printer) fleetPods(f *FleetList) {
	if len(f.Pods) == 0 {
		return
	}
	head := "PODS THAT NEED YOU: orphan-reaper explain UID, on that node, shows what to do"
	if f.scope.All || f.scope.Reason+f.scope.Driver+f.scope.Namespace != "" {
		head = "PODS"
	}
	p.Heading(head)
	pods := f.Pods
	if !f.scope.All {
		pods = pods[:min(len(pods), mostPodRows)]
	}
	for i := range pods {
		pod := &pods[i]
		words := []string{pod.UID, string(pod.Verdict), policy.FullName(pod.Namespace, pod.Name)}
		for _, w := range pod.Why {
			words = append(words, string(w.Reason))
		}
		p.Item("", human.Short(clean.Text(pod.Node), fleetWidth-1), fleetWidth, "", clean.Text(strings.Join(words, " ")))
	}
	if more := f.More + len(f.Pods) - len(pods); more > 0 {
		p.Printf("… and %s more\n", human.Thousands(more))
	}
}
