package ui

import (
	"cmp"
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

// FleetList is what the nodes of a fleet said of their orphans.
type FleetList struct {
	Totals FleetTotals    `json:"totals"`
	Nodes  []FleetNode    `json:"nodes"`
	Pods   []FleetPod     `json:"pods"`
	More   int            `json:"more"` // how many pods are not in Pods
	Silent []FleetSilence `json:"silent"`
	Notes  []string       `json:"notes"`

	scope    FleetScope
	reported bool              // by what the nodes have written, and not by asking them
	nobody   bool              // none has, and which nodes there are is not known
	hosts    map[string]string // of the addresses that the operator gave no name
}

// FleetScope says what of the nodes and pods is shown; the sums are always those of all.
type FleetScope struct {
	Wide        bool // every node and every pod
	NeedsPerson bool // of the nodes only those that need a person
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

// NewFleetList is empty. Without scope.Wide it has of the pods only those that need a person.
func NewFleetList(nodes int, scope FleetScope) *FleetList {
	return &FleetList{
		Totals: FleetTotals{Nodes: nodes}, Nodes: []FleetNode{}, Pods: []FleetPod{}, Silent: []FleetSilence{}, Notes: []string{},
		scope: scope, hosts: map[string]string{},
	}
}

// AddReport takes in what one node has reported to the API server.
func (f *FleetList) AddReport(at report.Target, r *report.Report, err error) {
	f.Totals.Nodes++
	f.Add(at, r, err)
}

// Reported says that the list is of what the nodes have reported, and what could not be known: in words, and
// whether nobody has reported where the nodes are not known.
func (f *FleetList) Reported(notes []string, nobody bool) {
	f.reported, f.nobody = true, nobody
	f.Notes = append(f.Notes, notes...)
}

// Add takes in what one node said.
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

// tellApart shows by its address each node that has no name by the operator and calls itself as
// another one is called: no node is taken for another.
func (f *FleetList) tellApart() {
	names := newNames(f.Silent)
	for _, n := range f.Nodes {
		names[n.Node]++
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !names.tell(&n.Node, &n.CallsItself, f.hosts[n.URL]) {
			delete(f.hosts, n.URL)
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Node = cmp.Or(f.hosts[p.URL], p.Node)
	}
}

// fleetNames counts how many nodes are called by a name.
type fleetNames map[string]int

func newNames(silent []FleetSilence) fleetNames {
	names := fleetNames{}
	for _, s := range silent {
		names[s.Node]++
	}
	return names
}

// tell puts the host of the address, where there is one, in the place of a name that several nodes
// have, and reports whether it did.
func (names fleetNames) tell(node, callsItself *string, host string) bool {
	if names[*node] < 2 || host == "" || host == *node {
		return false
	}
	*node, *callsItself = host, *node
	return true
}

// Sort brings nodes and pods into an order that does not depend on who answered first.
func (f *FleetList) Sort() {
	f.tellApart()
	if f.scope.NeedsPerson {
		f.Nodes = slices.DeleteFunc(f.Nodes, func(n FleetNode) bool { return n.Counts.NeedsPerson == 0 && !n.BreakerOpen })
	}
	slices.SortStableFunc(f.Nodes, func(a, b FleetNode) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Pods, func(a, b FleetPod) int { return strings.Compare(a.Node, b.Node) })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return strings.Compare(a.Node, b.Node) })
}

// NeedsPerson reports whether a person should look at a pod or a node. Where nothing is known, one should: else
// who watches the fleet by this would see no difference once every daemon is dead.
func (f *FleetList) NeedsPerson() bool {
	return f.nobody || len(f.Silent) > 0 || f.Totals.NeedsPerson > 0 || f.Totals.Breakers > 0
}

// FleetList is fleet list for a person: the sums, the nodes on which something lies, the pods that
// need a person, the nodes that are silent.
func (p *Printer) FleetList(f *FleetList) {
	t := f.Totals
	said := "%s asked, %s answered."
	if f.reported {
		said = "%s, %s have reported lately."
	}
	goes := human.Thousands(t.Reap-t.WouldReap) + " can be removed"
	if t.WouldReap > 0 {
		goes += ", " + human.Thousands(t.WouldReap) + " would be removed in mode enforce"
	}
	p.Para("", fmt.Sprintf(said+" %s, %s wait, %s are kept, and %s of them need you; %s in quarantine, %s.",
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
	if len(f.Silent) > 0 {
		p.Heading(map[bool]string{false: "NODES THAT DID NOT ANSWER", true: "NODES THAT ARE SILENT"}[f.reported])
		for _, s := range f.Silent {
			p.Item("", clean.Text(s.Node), 28, Red, clean.Text(s.Error))
		}
	}
}

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
	const width = 28
	p.Heading(human.Pad("NODE", width) + human.Pad("MODE", 10) + fmt.Sprintf("%6s%6s%6s%8s%12s", "REAP", "WAIT", "KEEP", "FOR YOU", "QUARANTINE"))
	for _, n := range rows {
		mode := n.Mode
		switch {
		case n.BreakerOpen:
			mode = "stopped"
		case mode == "enforce" && len(n.Missing) > 0:
			mode = "lacks"
		}
		p.Printf("%s%s%6d%6d%6d%8d%12d\n", human.Pad(human.Short(clean.Text(n.Node), width-1), width), human.Pad(clean.Text(mode), 10),
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
		p.Printf("%s%s %s\n", human.Pad(human.Short(clean.Text(pod.Node), 27), 28), clean.Text(pod.UID), clean.Text(string(pod.Verdict)))
		text := clean.Text(strings.TrimSpace(policy.FullName(pod.Namespace, pod.Name) + " " + reasonsOf(pod.Why)))
		if text != "" {
			p.Para(strings.Repeat(" ", 28), text)
		}
	}
	if f.More > 0 {
		p.Printf("… and %s more\n", human.Thousands(f.More))
	}
}

func reasonsOf(why []policy.Why) string {
	var words []string
	for _, w := range why {
		words = append(words, string(w.Reason))
	}
	return strings.Join(words, ", ")
}
