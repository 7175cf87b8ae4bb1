package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

const (
	reportsAPage = 500
	nodesAPage   = 1000
	// staleAfter is from when on a report is none: it is written about once an hour.
	staleAfter = 150 * time.Minute
)

// acceptMetadata asks for the nodes' metadata alone, some of their size.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// Each receives the report of one node, or why there is none. The report must not be used
// after it has returned.
type Each func(at report.Target, r *report.Report, err error)

// Doubt is what is not known of the nodes.
type Doubt struct {
	Notes []string // for people
	// Nobody: no node has ever reported, and which nodes there are is not known. So it is unknown
	// whether a daemon runs anywhere.
	Nobody bool
}

// item is what is read of an OrphanReport or of a Node.
type item struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Report json.RawMessage `json:"report"`
}

// Reports reads the OrphanReports of all nodes and hands on each, and then the nodes that have none or
// an old one. begin is called before the first, and again where the list has to begin again:
// what was handed on before does not count then.
func Reports(ctx context.Context, s *kube.Server, now time.Time, begin func(), each Each) (Doubt, error) {
	defer s.Close()
	nodes := map[string]bool{}
	err := readAll(ctx, s, list{path: "/api/v1/nodes", as: acceptMetadata, page: nodesAPage}, func() { clear(nodes) }, func(i *item) error {
		if i.runsDaemons() {
			nodes[i.Metadata.Name] = true
		}
		return nil
	})
	switch {
	case kube.Refused(err, 403):
		nodes = nil
	case err != nil:
		return Doubt{}, fmt.Errorf("cannot list the nodes: %w%s", err, advice(err, s.User, "list nodes"))
	}
	c := newCensus(now, each, nodes)
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

// ReadReports does as Reports with what kubectl get nodes,orphans -o json writes.
func ReadReports(r io.Reader, now time.Time, each Each) (Doubt, error) {
	c := newCensus(now, each, nil)
	_, err := readItems(r, fileBytes, func(i *item) error {
		switch i.Kind {
		case report.Kind:
			return c.add(i)
		case "Node":
			if c.nodes == nil {
				c.nodes = map[string]bool{}
			}
			if i.runsDaemons() {
				c.nodes[i.Metadata.Name] = true
			}
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

// runsDaemons reports whether the node is one for the daemon: Windows has none.
func (i *item) runsDaemons() bool {
	system, ok := i.Metadata.Labels["kubernetes.io/os"]
	return !ok || system == "linux"
}

// census passes on what the nodes have reported, and records whose report is missing.
type census struct {
	now   time.Time
	each  Each
	nodes map[string]bool // nil where they are not known
	fresh map[string]bool
	old   map[string]error // why the report does not count
}

func newCensus(now time.Time, each Each, nodes map[string]bool) *census {
	return &census{now: now, each: each, nodes: nodes, fresh: map[string]bool{}, old: map[string]error{}}
}

func (c *census) reset() {
	clear(c.fresh)
	clear(c.old)
}

// add adds one OrphanReport. A fault in it is reported for its node alone.
func (c *census) add(i *item) error {
	name := i.Metadata.Name
	if name == "" || c.fresh[name] || c.old[name] != nil {
		return fmt.Errorf("the report %.100q stands twice, or has no name", name)
	}
	var r report.Report
	err := json.Unmarshal(i.Report, &r)
	if err == nil {
		err = r.Bound()
	}
	if err != nil {
		c.old[name] = fmt.Errorf("its report is none of orphan-reaper's: %w", err)
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

// errNoReport is for a node of which there is no report.
var errNoReport = errors.New("it has written no report")

// end passes on the nodes without a report. An old report of a node that no longer exists is dropped.
func (c *census) end() {
	silent := maps.Clone(c.old)
	if c.nodes != nil {
		clear(silent)
		for name := range c.nodes {
			if !c.fresh[name] {
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

// doubt returns what is not known where the nodes could not be listed, and why they could not.
func (c *census) doubt(why string) Doubt {
	switch {
	case c.nodes != nil:
		return Doubt{}
	case len(c.fresh)+len(c.old) > 0:
		return Doubt{Notes: []string{"A node that never wrote a report is missing here: " + why + "."}}
	}
	note := "No node has written a report, and which nodes there are is not known: " + why + ". It is not known whether a daemon runs there."
	return Doubt{Notes: []string{note}, Nobody: true}
}

// target names a node that was not asked itself.
func target(name string) report.Target { return report.Target{Node: report.Short(name), Named: true} }
