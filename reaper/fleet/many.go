package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// Fleet is what many nodes have answered: what `fleet list` and `fleet sweep` print.
type Fleet struct {
	Sums  Sums   `json:"sums"`
	Nodes []Node `json:"nodes"` // the worst first
	// Operator is true if a node has failed or needs an operator; of a sweep, if one has failed or its breaker is open.
	Operator bool `json:"operator"`
}

// Node is the answer of one node, or why there is none.
type Node struct {
	Head         // of a node that failed: only its name
	URL   string `json:"url"`
	Error string `json:"error,omitempty"`
}

// Sums are the sums over all nodes that have answered.
type Sums struct {
	Nodes         int            `json:"nodes"`          // that were asked
	Failed        int            `json:"failed"`         // that have not answered, or whose last pass failed
	Observe       int            `json:"observe"`        // whose mode is observe: they change nothing
	Breakers      int            `json:"breakers"`       // whose circuit breaker is open
	OperatorNodes int            `json:"operator_nodes"` // that need an operator
	Versions      map[string]int `json:"versions,omitempty"`
	Summary
}

// List asks each target for its report.
func (c *Client) List(ctx context.Context, targets []Target) Fleet {
	c.open()
	ctx, end := span.Start(ctx, "fleet list")
	defer end(nil)
	return c.list(ctx, targets)
}

func (c *Client) list(ctx context.Context, targets []Target) Fleet {
	f := newFleet(c.each(ctx, targets, c.get))
	f.Operator = f.Sums.Failed+f.Sums.Breakers+f.Sums.OperatorNodes > 0
	return f
}

// Sweep asks each target for a pass. With wait it then asks for the reports until each has ended that pass, or the time is
// over. A daemon does by itself, and in time, what a pass does: nothing becomes quicker than its settings.
func (c *Client) Sweep(ctx context.Context, targets []Target, wait time.Duration) Fleet {
	c.open()
	ctx, end := span.Start(ctx, "fleet sweep")
	defer end(nil)
	return c.sweep(ctx, targets, wait)
}

func (c *Client) sweep(ctx context.Context, targets []Target, wait time.Duration) Fleet {
	nodes := c.each(ctx, targets, c.post)
	if wait > 0 {
		c.await(ctx, targets, nodes, wait)
	}
	f := newFleet(nodes)
	f.Operator = f.Sums.Failed+f.Sums.Breakers > 0
	return f
}

func (c *Client) get(ctx context.Context, _ int, t Target) (Head, error) {
	return c.ask(ctx, t, "GET", "/report")
}

func (c *Client) post(ctx context.Context, _ int, t Target) (Head, error) {
	return c.ask(ctx, t, "POST", "/scan")
}

// pollEvery is how often a node is asked whether its pass has ended.
const pollEvery = 2 * time.Second

// await asks for the reports of the nodes until each has ended the pass that it was asked for, or the time is over. A round
// asks each node once, so that nodes that hang keep no other from being asked.
func (c *Client) await(ctx context.Context, targets []Target, nodes []Node, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	asked := make([]Head, len(nodes))
	var pending []int
	for i, n := range nodes {
		if asked[i] = n.Head; n.Error == "" {
			pending = append(pending, i)
			nodes[i].Error = fmt.Sprintf("its scan has not ended after %s", wait)
		}
	}
	for len(pending) > 0 {
		round := make([]Target, 0, len(pending))
		for _, i := range pending {
			round = append(round, targets[i])
		}
		answers := c.each(ctx, round, func(ctx context.Context, j int, t Target) (Head, error) { return c.again(ctx, t, &asked[pending[j]]) })
		var rest []int
		for j, i := range pending {
			switch n := answers[j]; {
			case n.Error == "" && n.Start.Equal(asked[i].Start) && n.Pass >= asked[i].Scan:
				nodes[i] = n
			case ctx.Err() != nil: // it was cut off: what is known of it stays
			default:
				rest = append(rest, i)
				nodes[i] = n
				nodes[i].Error = fmt.Sprintf("its scan has not ended after %s", wait)
				if n.Error != "" {
					nodes[i].Error += "; its last answer: " + n.Error
				}
			}
		}
		pending = rest
		timer := time.NewTimer(pollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// again asks a node for its report. A daemon that has started since has not got the request, and is asked for a pass again.
func (c *Client) again(ctx context.Context, t Target, asked *Head) (Head, error) {
	h, err := c.get(ctx, 0, t)
	if err == nil && !h.Start.Equal(asked.Start) {
		if h, err = c.post(ctx, 0, t); err == nil {
			*asked = h
		}
	}
	return h, err
}

// each asks all targets, c.Parallel at once, and returns their answers in the order of the targets.
func (c *Client) each(ctx context.Context, targets []Target, ask func(context.Context, int, Target) (Head, error)) []Node {
	nodes := make([]Node, len(targets))
	var asking errgroup.Group
	asking.SetLimit(max(1, c.Parallel))
	for i, t := range targets {
		asking.Go(func() error {
			ctx, end := span.Start(ctx, "node", "node", t.Node)
			h, err := ask(ctx, i, t)
			end(err)
			if err != nil {
				h = Head{}
				nodes[i].Error = short(err.Error())
			}
			h.Node = t.Node // a node does not choose its name
			nodes[i].Head, nodes[i].URL = h, t.URL
			return nil
		})
	}
	_ = asking.Wait() // each node has its own error
	return nodes
}

// newFleet adds up the nodes, and sorts them.
func newFleet(nodes []Node) Fleet {
	f := Fleet{Nodes: nodes, Sums: Sums{Nodes: len(nodes), Versions: map[string]int{}}}
	f.Sums.Reasons = map[judge.ReasonName]int64{}
	for i := range nodes {
		n := &nodes[i]
		f.Sums.Failed += one(n.failed())
		if n.Error != "" {
			continue
		}
		f.Sums.Observe += one(n.Mode == "observe")
		f.Sums.Breakers += one(n.Breaker)
		f.Sums.OperatorNodes += one(n.Operator)
		f.Sums.Versions[n.Version]++
		sums := f.Sums.numbers()
		for i, v := range n.Summary.numbers() {
			*sums[i] += *v
		}
		for reason, v := range n.Summary.Reasons {
			f.Sums.Reasons[reason] += v
		}
	}
	slices.SortStableFunc(f.Nodes, worse)
	return f
}

func one(counts bool) int {
	if counts {
		return 1
	}
	return 0
}

// failed reports whether the node has not answered, or its last pass failed.
func (n *Node) failed() bool { return n.Error != "" || n.Failed != "" }

// worse orders the nodes: open breakers, then nodes that failed, then those that need an operator, by what they have.
func worse(a, b Node) int {
	return cmp.Or(
		first(a.Breaker, b.Breaker), first(a.failed(), b.failed()), first(a.Head.Operator, b.Head.Operator),
		cmp.Compare(b.Summary.Operator, a.Summary.Operator), cmp.Compare(b.Summary.Keep, a.Summary.Keep),
		cmp.Compare(b.Summary.Hidden, a.Summary.Hidden), cmp.Compare(b.Summary.Bytes, a.Summary.Bytes),
		cmp.Compare(b.Summary.Wait, a.Summary.Wait), cmp.Compare(a.Node, b.Node),
	)
}
