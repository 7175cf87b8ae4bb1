package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

const (
	reportsAPage = 500
	nodesAPage   = 1000
	// staleAfter is the age from which a report does not count: it is written about once an hour.
	staleAfter = 150 * time.Minute
)

// acceptMetadata requests only the metadata of the nodes, which is much smaller.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// Each receives the report of one node, or why there is none. It must not keep the report.
type Each func(at report.Target, r *report.Report, err error)

// Doubt lists what is unknown about the nodes.
type Doubt struct {
	Notes []string // for messages
	// NoReport means that no node has ever reported, and the nodes are unknown. So it is unknown whether any daemon runs.
	NoReport bool
}

// item is the part that is read of an OrphanReport, a Node or a DaemonSet.
type item struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Report json.RawMessage `json:"report"`
	Spec   struct {
		Taints   []taint `json:"taints"` // of a Node
		Template struct {
			Spec podSpec `json:"spec"`
		} `json:"template"` // of a DaemonSet
	} `json:"spec"`
}

// chartSelector selects the DaemonSets of the chart, whatever their names.
const chartSelector = "app.kubernetes.io/name=orphan-reaper"

// Reports calls each with the OrphanReports of the nodes that selector selects, and then with the nodes that have no
// current report. It calls begin before the first, and again if the list must start again: earlier calls of each then
// do not count.
func Reports(ctx context.Context, s *kube.Server, now time.Time, selector labels.Selector, begin func(), each Each) (Doubt, error) {
	defer s.Close()
	c := newCensus(now, each, selector)
	if err := c.readNodes(ctx, s); err != nil {
		return Doubt{}, err
	}
	reports := list{path: report.ResourcePath, as: "application/json", page: reportsAPage}
	if err := readAll(ctx, s, reports, func() { begin(); c.reset() }, c.add); err != nil {
		if kube.Refused(err, 404) {
			return Doubt{}, errors.New("the cluster has no OrphanReports: apply their CustomResourceDefinition, which the chart has")
		}
		return Doubt{}, fmt.Errorf("cannot list the OrphanReports: %w%s", err, advice(err, s.User, "list orphanreports ("+report.APIGroup+")"))
	}
	c.end()
	return c.doubt(clean.Brief(s.User) + " may not list nodes"), nil
}

// readNodes reads the nodes, and which of them should have a daemon. If no DaemonSet can be read, all should.
func (c *census) readNodes(ctx context.Context, s *kube.Server) error {
	var sets []podSpec
	path := list{path: "/apis/apps/v1/daemonsets", query: url.Values{"labelSelector": {chartSelector}}, as: "application/json", page: nodesAPage}
	err := readAll(ctx, s, path, func() { sets = nil }, func(i *item) error {
		sets = append(sets, i.Spec.Template.Spec)
		return nil
	})
	if err != nil && !kube.Refused(err, 403) && !kube.Refused(err, 404) {
		return fmt.Errorf("cannot list the DaemonSets: %w%s", err, advice(err, s.User, "list daemonsets (apps)"))
	}
	nodes := list{path: "/api/v1/nodes", as: acceptMetadata, page: nodesAPage}
	if slices.ContainsFunc(sets, func(p podSpec) bool { return !p.toleratesAll() }) {
		nodes.as = "application/json" // taints are not in the metadata
	}
	err = readAll(ctx, s, nodes, func() { c.nodes, c.unselected = map[string]bool{}, 0 }, func(i *item) error {
		c.addNode(i, sets)
		return nil
	})
	switch {
	case kube.Refused(err, 403) && c.selector.Empty():
		c.nodes = nil
	case err != nil:
		return fmt.Errorf("cannot list the nodes: %w%s", err, advice(err, s.User, "list nodes"))
	}
	return nil
}

// addNode adds a node, and whether it should have a daemon.
func (c *census) addNode(i *item, sets []podSpec) {
	if c.nodes == nil {
		c.nodes = map[string]bool{}
	}
	if !i.runsDaemons() || !c.selector.Matches(labels.Set(i.Metadata.Labels)) {
		return
	}
	selected := len(sets) == 0 || slices.ContainsFunc(sets, func(p podSpec) bool { return p.selects(i) })
	if c.nodes[i.Metadata.Name] = selected; !selected {
		c.unselected++
	}
}

// ReadReports is Reports for the output of "kubectl get nodes,orphans -o json". With a selector the nodes must come
// first.
func ReadReports(r io.Reader, now time.Time, selector labels.Selector, each Each) (Doubt, error) {
	c := newCensus(now, each, selector)
	_, err := readItems(r, fileBytes, func(i *item) error {
		switch i.Kind {
		case report.Kind:
			if c.nodes == nil && !selector.Empty() {
				return errors.New("a selector needs the nodes before the reports: kubectl get nodes,orphans -o json")
			}
			return c.add(i)
		case "Node":
			c.addNode(i, nil)
			return nil
		}
		return fmt.Errorf("it has a %.40q, which is neither a Node nor an %s", i.Kind, report.Kind)
	})
	if errors.Is(err, io.EOF) {
		err = errors.New("there is nothing: kubectl may have printed the cause")
	}
	if err != nil {
		return Doubt{}, fmt.Errorf("cannot read the reports: %w", err)
	}
	c.end()
	return c.doubt("the list has no Nodes (kubectl get nodes,orphans -o json)"), nil
}

// runsDaemons reports whether the node can have a daemon: Windows nodes cannot.
func (i *item) runsDaemons() bool {
	system, ok := i.Metadata.Labels["kubernetes.io/os"]
	return !ok || system == "linux"
}

// census calls each with the nodes' reports, and records which are missing.
type census struct {
	now  time.Time
	each Each
	// nodes maps the selected nodes to whether they should have a daemon; nil if the nodes are unknown.
	nodes      map[string]bool
	unselected int // nodes that should have no daemon
	selector   labels.Selector
	fresh      map[string]bool
	old        map[string]error // why the report does not count
}

func newCensus(now time.Time, each Each, selector labels.Selector) *census {
	return &census{now: now, each: each, selector: selector, fresh: map[string]bool{}, old: map[string]error{}}
}

func (c *census) reset() {
	clear(c.fresh)
	clear(c.old)
}

// add adds one OrphanReport. An invalid report is an error of its node only.
func (c *census) add(i *item) error {
	name := i.Metadata.Name
	if name == "" || c.fresh[name] || c.old[name] != nil {
		return fmt.Errorf("the report %.100q stands twice, or has no name", name)
	}
	if _, selected := c.nodes[name]; !selected && !c.selector.Empty() {
		return nil
	}
	var r report.Report
	err := json.Unmarshal(i.Report, &r)
	if err == nil {
		err = r.Bound()
	}
	if err != nil {
		c.old[name] = fmt.Errorf("cannot read its report: %w", shape(err))
		return nil
	}
	switch age := c.now.Sub(r.At); {
	case age > staleAfter:
		c.old[name] = fmt.Errorf("its last report is of %s, %s ago", r.At.UTC().Format(time.RFC3339), age.Round(time.Minute))
	case age < -staleAfter:
		c.old[name] = fmt.Errorf("its last report is of %s, which lies in the future: check its clock", r.At.UTC().Format(time.RFC3339))
	default:
		c.fresh[name] = true
		c.each(target(name), &r, nil)
	}
	return nil
}

// errNoReport is the error of a node without a report.
var errNoReport = errors.New("it has written no report")

// end calls each with the nodes without a current report. It drops old reports of nodes that no longer exist.
func (c *census) end() {
	silent := maps.Clone(c.old)
	if c.nodes != nil {
		clear(silent)
		for name, selected := range c.nodes {
			if selected && !c.fresh[name] {
				if silent[name] = c.old[name]; silent[name] == nil {
					silent[name] = errNoReport
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(silent)) {
		c.each(target(name), nil, silent[name])
	}
}

// doubt returns what is unknown about the nodes. why is the reason if they could not be listed.
func (c *census) doubt(why string) Doubt {
	switch {
	case c.unselected > 0:
		return Doubt{Notes: []string{fmt.Sprintf("On %d of the nodes no daemon is to run: no DaemonSet selects them.", c.unselected)}}
	case c.nodes != nil:
		return Doubt{}
	case len(c.fresh)+len(c.old) > 0:
		return Doubt{Notes: []string{"A node that never wrote a report is missing here: " + why + "."}}
	}
	note := "No node has written a report, and which nodes there are is not known: " + why + ". It is not known whether a daemon runs there."
	return Doubt{Notes: []string{note}, NoReport: true}
}

// target returns the target of a node that was not asked itself.
func target(name string) report.Target { return report.Target{Node: report.Short(name), Named: true} }
