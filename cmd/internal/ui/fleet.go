package ui

import (
	"cmp"
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// mostFleetPods bounds the pods of all nodes together: 5,000 nodes may have 100 each. In the second half each node has only
// one.
const mostFleetPods = 10_000

// FleetList lists the orphans that the nodes of a fleet reported.
type FleetList struct {
	Totals FleetTotals    `json:"totals"`
	Sums   []report.Sum   `json:"sums"`
	Nodes  []FleetNode    `json:"nodes"`
	Pods   []FleetPod     `json:"pods"`
	More   int            `json:"more"` // how many pods are not in Pods
	Silent []FleetSilence `json:"silent"`

	scope FleetScope
	hosts map[string]string         // by URL, for addresses that were given without a node's name
	sums  map[report.Sum]report.Sum // by their subject
}

// FleetScope selects the nodes and pods that are shown; the sums are always those of all.
type FleetScope struct {
	All            bool   // every node and every pod
	NeedsPerson    bool   // only nodes that need an operator
	Reason, Driver string // only nodes and pods with it, "" for all
	Namespace      string // only its pods, and their nodes
	MinBytes       int64  // only nodes with at least as many bytes
	Sort           string // one of FleetOrders
	Top            int    // how many nodes are shown; 0 shows all
}

// FleetOrders are the orders of nodes.
var FleetOrders = []string{"worst", "name", "pods", "bytes"}

// FleetTotals sums up the nodes that answered.
type FleetTotals struct {
	Nodes     int `json:"nodes"`
	Answered  int `json:"answered"`
	Observing int `json:"observing"` // by their mode, or because something is missing
	Breakers  int `json:"breakers"`
	// WouldReap is how many of Reap are on nodes in mode observe.
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

	hits int // pods with the reason and driver of the scope
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

// NewFleetList returns an empty list. Without scope.All it holds only pods that need an operator or match the
// scope.
func NewFleetList(nodes int, scope FleetScope) *FleetList {
	return &FleetList{
		Totals: FleetTotals{Nodes: nodes}, Sums: []report.Sum{}, Nodes: []FleetNode{}, Pods: []FleetPod{}, Silent: []FleetSilence{},
		scope: scope, hosts: map[string]string{}, sums: map[report.Sum]report.Sum{},
	}
}

// Add adds the answer of one node.
func (f *FleetList) Add(at report.Target, r *report.Report, err error) {
	if err != nil {
		f.Silent = append(f.Silent, FleetSilence{at.Node, at.URL, report.Short(err.Error())})
		return
	}
	node, other := at.Name(r.Node)
	if !at.Named {
		f.hosts[at.URL] = at.Node
	}
	n := FleetNode{node, at.URL, other, r.Version, r.Mode, list(r.Missing), r.BreakerOpen, r.Counts, 0}
	f.add(r)
	if n.hits = f.scope.hits(r); !f.scope.shows(&n) || f.scope.Namespace != "" && !slices.ContainsFunc(r.Pods, f.scope.pod) {
		return
	}
	f.Nodes = append(f.Nodes, n)
	had := len(f.Pods)
	for _, p := range r.Pods {
		switch {
		case !f.scope.pod(p):
		case len(f.Pods) < mostFleetPods/2 || len(f.Pods) == had && had < mostFleetPods:
			p.Why = list(p.Why)
			f.Pods = append(f.Pods, FleetPod{node, at.URL, p})
		default:
			f.More++
		}
	}
	if f.scope.All {
		f.More += r.More
	}
}

// add adds a node's report to the sums.
func (f *FleetList) add(r *report.Report) {
	t, c := &f.Totals, &r.Counts
	t.Answered++
	if r.Mode != "enforce" || len(r.Missing) > 0 {
		t.Observing++
	}
	if r.BreakerOpen {
		t.Breakers++
	}
	if r.Mode != "enforce" {
		t.WouldReap += c.Reap
	}
	t.PodDirectories += c.PodDirectories
	t.Reap += c.Reap
	t.Wait += c.Wait
	t.Keep += c.Keep
	t.NeedsPerson += c.NeedsPerson
	t.Quarantine += c.Quarantine
	t.QuarantineBytes += c.QuarantineBytes
	t.Bytes += c.Bytes
	for _, one := range r.Sums {
		key := report.Sum{By: one.By, Name: one.Name}
		if _, known := f.sums[key]; !known && len(f.sums) >= mostFleetSums {
			continue // only a hostile node makes up so many names
		}
		one.Pods += f.sums[key].Pods
		one.Bytes += f.sums[key].Bytes
		f.sums[key] = one
	}
}

const mostFleetSums = 1000

// hits returns an upper limit of the pods of a node with the scope's reason and driver, by the node's sums.
func (s *FleetScope) hits(r *report.Report) int {
	least := r.Counts.Reap + r.Counts.Wait + r.Counts.Keep
	for _, want := range []report.Sum{{By: report.ByReason, Name: s.Reason}, {By: report.ByDriver, Name: s.Driver}} {
		if want.Name == "" {
			continue
		}
		pods := 0
		for _, one := range r.Sums {
			if one.By == want.By && one.Name == want.Name {
				pods = one.Pods
			}
		}
		least = min(least, pods)
	}
	return least
}

func (s *FleetScope) shows(n *FleetNode) bool {
	switch {
	case s.NeedsPerson && n.Counts.NeedsPerson == 0 && !n.BreakerOpen:
		return false
	case s.Reason+s.Driver != "" && n.hits == 0:
		return false
	}
	return n.Counts.Bytes+n.Counts.QuarantineBytes >= s.MinBytes
}

// pod reports whether a pod is in the list.
func (s *FleetScope) pod(p report.Pod) bool {
	if s.Reason != "" && !slices.ContainsFunc(p.Why, func(w policy.Why) bool { return string(w.Reason) == s.Reason }) ||
		s.Driver != "" && p.Driver != s.Driver || s.Namespace != "" && p.Namespace != s.Namespace {
		return false
	}
	return s.All || p.NeedsPerson || s.Reason+s.Driver+s.Namespace != ""
}

type namedNode struct {
	node, callsItself *string
	url               string
}

// distinguish replaces a name that several nodes have with the host of the address, if the operator gave no name. others are
// the names of nodes that did not answer; hosts has the host of each address.
func distinguish(nodes []namedNode, hosts map[string]string, others []string) {
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

func names(silent []FleetSilence) (names []string) {
	for _, s := range silent {
		names = append(names, s.Node)
	}
	return names
}

// Sort sorts nodes and pods, whose order must not depend on which node answered first.
func (f *FleetList) Sort() {
	var nodes []namedNode
	for i := range f.Nodes {
		nodes = append(nodes, namedNode{&f.Nodes[i].Node, &f.Nodes[i].CallsItself, f.Nodes[i].URL})
	}
	distinguish(nodes, f.hosts, names(f.Silent))
	at, rank := map[string]string{}, map[string]int{}
	for _, n := range f.Nodes {
		at[n.URL] = n.Node
	}
	slices.SortStableFunc(f.Nodes, func(a, b FleetNode) int { return cmp.Or(f.scope.compare(&a, &b), cmp.Compare(a.Node, b.Node)) })
	for i, n := range f.Nodes {
		rank[n.Node] = i
	}
	for i := range f.Pods {
		if p := &f.Pods[i]; p.URL != "" {
			p.Node = at[p.URL]
		}
	}
	slices.SortStableFunc(f.Pods, func(a, b FleetPod) int { return rank[a.Node] - rank[b.Node] })
	slices.SortStableFunc(f.Silent, func(a, b FleetSilence) int { return cmp.Compare(a.Node, b.Node) })
	f.Sums = slices.AppendSeq(f.Sums, maps.Values(f.sums))
	report.SortSums(f.Sums)
}

func (s *FleetScope) compare(a, b *FleetNode) int {
	ca, cb := &a.Counts, &b.Counts
	bytes := cmp.Compare(cb.Bytes+cb.QuarantineBytes, ca.Bytes+ca.QuarantineBytes)
	pods := cmp.Or(b.hits-a.hits, (cb.Reap+cb.Wait+cb.Keep)-(ca.Reap+ca.Wait+ca.Keep))
	switch s.Sort {
	case "name":
		return 0
	case "pods":
		return pods
	case "bytes":
		return bytes
	}
	open := func(n *FleetNode) int {
		if n.BreakerOpen {
			return 1
		}
		return 0
	}
	return cmp.Or(open(b)-open(a), cb.NeedsPerson-ca.NeedsPerson, len(b.Missing)-len(a.Missing), pods, bytes)
}

// NeedsPerson reports whether an operator should inspect a pod or a node.
func (f *FleetList) NeedsPerson() bool {
	return len(f.Silent) > 0 || f.Totals.NeedsPerson > 0 || f.Totals.Breakers > 0
}
