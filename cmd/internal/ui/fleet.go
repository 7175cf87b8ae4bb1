package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// mostFleetPods bounds the pods of all nodes together: 5,000 nodes may have 100 each.
const mostFleetPods = 10_000

// FleetList is what the nodes of a fleet reported about their orphans.
type FleetList struct {
	Totals FleetTotals    `json:"totals"`
	Nodes  []FleetNode    `json:"nodes"`
	Pods   []FleetPod     `json:"pods"`
	More   int            `json:"more"` // how many pods are not in Pods
	Silent []FleetSilence `json:"silent"`
	Notes  []string       `json:"notes"`

	scope    FleetScope
	reported bool              // by what the nodes have written, and not by asking them
	nobody   bool              // no node has, and which nodes there are is not known
	hosts    map[string]string // of the addresses that the operator gave no name
}

// FleetScope selects the nodes and pods that are shown; the sums are always those of all.
type FleetScope struct {
	Wide        bool // every node and every pod
	NeedsPerson bool // of the nodes only those that need an operator
}

// FleetTotals sums up the nodes that answered.
type FleetTotals struct {
	Nodes     int `json:"nodes"`
	Answered  int `json:"answered"`
	Observing int `json:"observing"` // by their mode, or since they lack something
	Breakers  int `json:"breakers"`
	// WouldReap is how many of Reap are on nodes in mode observe: in mode enforce they would go.
	WouldReap int `json:"would_reap"`
	report.Counts
}

// FleetNode is one node's sums.
type FleetNode struct {
	Node        string        `json:"node"`
	URL         string        `json:"url"`
	CallsItself string        `json:"calls_itself,omitempty"` // another name than Node
	Version     string        `json:"version"`
	Mode        string        `json:"mode"`
	Missing     []string      `json:"missing"`
	BreakerOpen bool          `json:"breaker_open"`
	Counts      report.Counts `json:"counts"`
}

// FleetPod is one pod of one node.
type FleetPod struct {
	Node string `json:"node"`
	URL  string `json:"url"`
	report.Pod
}

// FleetSilence is a node that did not answer.
type FleetSilence struct {
	Node  string `json:"node"`
	URL   string `json:"url"`
	Error string `json:"error"`
}

// NewFleetList is empty. Without scope.Wide it has of the pods only those that need an operator.
func NewFleetList(nodes int, scope FleetScope) *FleetList {
	return &FleetList{
		Totals: FleetTotals{Nodes: nodes}, Nodes: []FleetNode{}, Pods: []FleetPod{}, Silent: []FleetSilence{}, Notes: []string{},
		scope: scope, hosts: map[string]string{},
	}
}

// AddReport adds what one node has reported to the API server.
func (f *FleetList) AddReport(at report.Target, r *report.Report, err error) {
	f.Totals.Nodes++
	f.Add(at, r, err)
}

// Reported marks the list as made from reports. notes are what could not be found out; nobody is true where no node has
// reported and the nodes are not known.
func (f *FleetList) Reported(notes []string, nobody bool) {
	f.reported, f.nobody = true, nobody
	f.Notes = append(f.Notes, notes...)
}

// Add adds the answer of one node.
func (f *FleetList) Add(at report.Target, r *report.Report, err error) {
	if err != nil {
		f.Silent = append(f.Silent, FleetSilence{at.Node, at.URL, report.Short(err.Error())})
		return
	}
	t := &f.Totals
	node, other := at.Name(r.Node)
	if !at.Named {
		f.hosts[at.URL] = at.Node
	}
	f.Nodes = append(f.Nodes, FleetNode{node, at.URL, other, r.Version, r.Mode, list(r.Missing), r.BreakerOpen, r.Counts})
	t.Answered++
	if r.Mode != "enforce" || len(r.Missing) > 0 {
		t.Observing++
	}
	if r.BreakerOpen {
		t.Breakers++
	}
	t.PodDirectories += r.Counts.PodDirectories
	t.Reap += r.Counts.Reap
	if r.Mode != "enforce" {
		t.WouldReap += r.Counts.Reap
	}
	t.Wait += r.Counts.Wait
	t.Keep += r.Counts.Keep
	t.NeedsPerson += r.Counts.NeedsPerson
	t.Quarantine += r.Counts.Quarantine
	t.QuarantineBytes += r.Counts.QuarantineBytes
	for _, p := range r.Pods {
		switch {
		case !f.scope.Wide && !p.NeedsPerson:
		case len(f.Pods) < mostFleetPods:
			p.Why = list(p.Why)
			f.Pods = append(f.Pods, FleetPod{node, at.URL, p})
		default:
			f.More++
		}
	}
	if f.scope.Wide {
		f.More += r.More
	}
}

// namedNode is a node in a list, whose name may be replaced.
type namedNode struct {
	node, callsItself *string
	url               string
}

// tellApart replaces a name that several nodes have by the host of the address, where the operator gave no name: no node is
// taken for another. others are the names of nodes that did not answer; hosts has the host of each address.
func tellApart(nodes []namedNode, hosts map[string]string, others []string) {
	count := map[string]int{}
	for _, name := range others {
		count[name]++
	}
	for _, n := range nodes {
		count[*n.node]++
	}
	for _, n := range nodes {
		if host := hosts[n.url]; count[*n.node] > 1 && host != "" && host != *n.node {
			*n.node, *n.callsItself = host, *n.node
		}
	}
}

// names are those of the nodes that did not answer.
func names(silent []FleetSilence) (names []string) {
	for _, s := range silent {
		names = append(names, s.Node)
	}
	return names
}

// Sort brings nodes and pods into an order that does not depend on who answered first.
func (f *FleetList) Sort() {
	var nodes []namedNode
	for i := range f.Nodes {
		nodes = append(nodes, namedNode{&f.Nodes[i].Node, &f.Nodes[i].CallsItself, f.Nodes[i].URL})
	}
	tellApart(nodes, f.hosts, names(f.Silent))
	at := map[string]string{}
	for _, n := range f.Nodes {
		at[n.URL] = n.Node
	}
	for i := range f.Pods {
		if p := &f.Pods[i]; p.URL != "" {
			p.Node = at[p.URL]
		}
	}
	if f.scope.NeedsPerson {
		f.Nodes = slices.DeleteFunc(f.Nodes, func(n FleetNode) bool { return n.Counts.NeedsPerson == 0 && !n.BreakerOpen })
	}
	slices.SortStableFunc(f.Nodes, func(a, b FleetNode) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Pods, func(a, b FleetPod) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return strings.Compare(a.Node, b.Node) })
}

// NeedsPerson reports whether an operator should inspect a pod or a node. Where nothing is known, one should: otherwise a
// monitor would see no difference once every daemon is dead.
func (f *FleetList) NeedsPerson() bool {
	return f.nobody || len(f.Silent) > 0 || f.Totals.NeedsPerson > 0 || f.Totals.Breakers > 0
}

// FleetList writes the sums, the nodes on which something lies, the pods that need an operator, and the silent nodes.
func (p *Printer) FleetList(f *FleetList) {
	t := f.Totals
	heading := "%s asked, %s answered."
	if f.reported {
		heading = "%s, %s have reported lately."
	}
	goes := human.Thousands(t.Reap-t.WouldReap) + " can be removed"
	if t.WouldReap > 0 {
		goes += ", " + human.Thousands(t.WouldReap) + " would be removed in mode enforce"
	}
	p.Para("", fmt.Sprintf(heading+" %s, %s wait, %s are kept, and %s of them need you; %s in quarantine, %s.",
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
	for _, note := range f.Notes {
		p.Para("", clean.Text(note))
	}
	p.fleetNodes(f)
	p.fleetPods(f)
	p.silent(f.Silent)
}

// silent writes the nodes that did not answer.
func (p *Printer) silent(silent []FleetSilence) {
	if len(silent) > 0 {
		p.Heading("NODES THAT ARE SILENT")
	}
	for _, s := range silent {
		p.Item("", clean.Text(s.Node), fleetWidth, Red, clean.Text(s.Error))
	}
}

// fleetWidth is that of the column of nodes.
const fleetWidth = 28

func (p *Printer) fleetNodes(f *FleetList) {
	var rows []FleetNode
	for _, n := range f.Nodes {
		if c := n.Counts; f.scope.Wide || c.Reap+c.Wait+c.Keep+c.Quarantine > 0 || n.BreakerOpen || len(n.Missing) > 0 || n.CallsItself != "" {
			rows = append(rows, n)
		}
	}
	if len(rows) == 0 {
		return
	}
	p.Heading(human.Pad("NODE", fleetWidth) + human.Pad("MODE", 10) + fmt.Sprintf("%6s%6s%6s%8s%12s", "REAP", "WAIT", "KEEP", "FOR YOU", "QUARANTINE"))
	for _, n := range rows {
		mode := n.Mode
		switch {
		case n.BreakerOpen:
			mode = "stopped"
		case mode == "enforce" && len(n.Missing) > 0:
			mode = "lacks"
		}
		p.Printf("%s%s%6d%6d%6d%8d%12d\n", human.Pad(human.Short(clean.Text(n.Node), fleetWidth-1), fleetWidth), human.Pad(clean.Text(mode), 10),
			n.Counts.Reap, n.Counts.Wait, n.Counts.Keep, n.Counts.NeedsPerson, n.Counts.Quarantine)
		if n.CallsItself != "" {
			p.Para(strings.Repeat(" ", 4), strings.TrimSpace(n.URL+" calls itself "+clean.Text(n.CallsItself)))
		}
		for _, text := range n.Missing {
			p.Para(strings.Repeat(" ", 4), clean.Text(text))
		}
	}
}

func (p *Printer) fleetPods(f *FleetList) {
	if len(f.Pods) == 0 {
		return
	}
	head := "PODS THAT NEED YOU: orphan-reaper explain UID, on that node, shows what to do"
	if f.scope.Wide {
		head = "PODS"
	}
	p.Heading(head)
	for i := range f.Pods {
		pod := &f.Pods[i]
		words := []string{pod.UID, string(pod.Verdict), policy.FullName(pod.Namespace, pod.Name)}
		for _, w := range pod.Why {
			words = append(words, string(w.Reason))
		}
		p.Item("", human.Short(clean.Text(pod.Node), fleetWidth-1), fleetWidth, "", clean.Text(strings.Join(words, " ")))
	}
	if f.More > 0 {
		p.Printf("… and %s more\n", human.Thousands(f.More))
	}
}

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

// Add adds the answer of one node.
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

// Sort brings the nodes into an order that does not depend on who answered first.
func (f *FleetSweep) Sort() {
	var nodes []namedNode
	for i := range f.Asked {
		nodes = append(nodes, namedNode{&f.Asked[i].Node, &f.Asked[i].CallsItself, f.Asked[i].URL})
	}
	tellApart(nodes, f.hosts, append(names(f.Silent), f.NotAsked...))
	slices.SortStableFunc(f.Asked, func(a, b FleetAsked) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(f.NotAsked)
}

// FleetSweep writes which nodes look now, and which do not.
func (p *Printer) FleetSweep(f *FleetSweep) {
	p.Para("", fmt.Sprintf("%s of %s look now.", human.Thousands(len(f.Asked)), human.Count(f.Nodes, "node")))
	if n := len(f.NotAsked); n > 0 {
		p.Para("", fmt.Sprintf("Stopped: on %s the breaker is open, which is more than --max-breakers allows. %s were not asked. Find out why "+
			"parked pods turn out to be alive before you continue.", human.Count(f.Breakers, "node"), human.Count(n, "node")))
	}
	p.silent(f.Silent)
}
