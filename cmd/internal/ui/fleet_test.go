package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func textOf(t *testing.T, f *FleetList) string {
	t.Helper()
	return printed(t, func(p *Printer) { p.FleetList(f) })
}

// TestFleetListNames checks that no node can impersonate another by its name.
func TestFleetListNames(t *testing.T) {
	f := NewFleetList(5, FleetScope{})
	says := func(at report.Target, name string) {
		r := &report.Report{Node: name, Mode: "enforce", Counts: report.Counts{Keep: 1, NeedsPerson: 1}}
		r.Pods = []report.Pod{{UID: at.URL, NeedsPerson: true}}
		f.Add(at, r, nil)
	}
	says(report.Target{Node: "worker-good", URL: "http://10.0.0.1", Named: true}, "worker-good")
	says(report.Target{Node: "worker-evil", URL: "http://10.0.0.2", Named: true}, "worker-good")
	says(report.Target{Node: "10.0.0.3", URL: "http://10.0.0.3"}, "worker-good")
	says(report.Target{Node: "10.0.0.4", URL: "http://10.0.0.4"}, "worker-gone")
	says(report.Target{Node: "10.0.0.5", URL: "http://10.0.0.5"}, "worker-5")
	f.Add(report.Target{Node: "worker-gone", URL: "http://10.0.0.6", Named: true}, nil, errors.New("refused"))
	f.Sort()
	var nodes, pods []string
	for _, n := range f.Nodes {
		nodes = append(nodes, n.URL+" "+n.Node+" "+n.CallsItself)
	}
	for _, p := range f.Pods {
		pods = append(pods, p.UID+" "+p.Node)
	}
	want := map[string]string{
		"http://10.0.0.1": "worker-good ", "http://10.0.0.2": "worker-evil worker-good", "http://10.0.0.3": "10.0.0.3 worker-good",
		"http://10.0.0.4": "10.0.0.4 worker-gone", "http://10.0.0.5": "worker-5 ",
	}
	for _, line := range nodes {
		if url, name, _ := strings.Cut(line, " "); want[url] != name {
			t.Errorf("%s is %q, want %q", url, name, want[url])
		}
	}
	for _, line := range pods {
		url, name, _ := strings.Cut(line, " ")
		if node, _, _ := strings.Cut(want[url], " "); node != name {
			t.Errorf("the pod of %s is listed for %q, want %q", url, name, node)
		}
	}
	if text := textOf(t, f); !strings.Contains(text, "http://10.0.0.2 calls itself worker-good") {
		t.Error(text)
	}
	s := NewFleetSweep(1)
	s.Add(report.Target{Node: "worker-evil", URL: "http://10.0.0.2", Named: true}, &report.Swept{Answer: report.Answer{Node: "worker-good"}}, nil)
	if a := s.Asked[0]; a.Node != "worker-evil" || a.CallsItself != "worker-good" {
		t.Errorf("%+v", a)
	}
}

// TestFleetListSilence checks that a node's error text is shortened, too.
func TestFleetListSilence(t *testing.T) {
	f := NewFleetList(1, FleetScope{})
	f.Add(report.Target{Node: "n"}, nil, fmt.Errorf("403: %s\x1b[2J", strings.Repeat("a", 1000)))
	if text := f.Silent[0].Error; len(text) > 256 || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// TestFleetListShort checks that for 5,000 nodes the sums, the 20 worst and five of the silent ones are shown.
func TestFleetListShort(t *testing.T) {
	list := func(scope FleetScope) string {
		f := NewFleetList(10_000, scope)
		for i := range 5000 {
			r := &report.Report{Mode: "enforce", Counts: report.Counts{Keep: 1, NeedsPerson: 1, Bytes: 1 << 20}}
			if i == 4321 {
				r.BreakerOpen = true
			}
			r.Sums = []report.Sum{{By: report.ByReason, Name: "mounted", Pods: 1, Bytes: 1 << 20}, {By: report.ByReason, Name: fmt.Sprintf("\x1bmade-up-%d", i), Pods: 1}}
			r.Pods = []report.Pod{{UID: "u", NeedsPerson: true}}
			testkit.Must(t, r.Bound())
			f.Add(report.Target{Node: fmt.Sprint("node-", i), Named: true}, r, nil)
			f.Add(report.Target{Node: fmt.Sprint("gone-", i), Named: true}, nil, errors.New("refused"))
		}
		f.Sort()
		return textOf(t, f)
	}
	text := list(FleetScope{Top: 20, Sort: "worst"})
	if n := strings.Count(text, "\n"); n > 90 || strings.Contains(text, "\x1b") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{
		"mounted                         5000", "… and 4,980 more nodes: --all, or --top 5000", "… and 4,980 more\n",
		"5,000 nodes, such as gone-0, gone-1, gone-10, gone-100, gone-1000: refused.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if a, b := strings.Index(text, "node-4321 "), strings.Index(text, "node-0 "); a < 0 || b < a {
		t.Errorf("the node that has stopped is not the first:\n%s", text)
	}
	if n := strings.Count(list(FleetScope{All: true}), "\n"); n < 15_000 {
		t.Errorf("--all has %d lines", n)
	}
}

// TestFleetSweepResult checks that each node with an open breaker is listed, and that the results are shown per node
// and in sum.
func TestFleetSweepResult(t *testing.T) {
	f := NewFleetSweep(4)
	for i, r := range []report.Report{{Done: report.Done{Parked: 5, Bytes: 2048}}, {BreakerOpen: true, Done: report.Done{PutBack: 1}}, {}} {
		s := &report.Swept{Answer: report.Answer{Look: 1, BreakerOpen: r.BreakerOpen}, Ended: &r}
		s.Done.Parked = min(2, r.Done.Parked)
		f.Add(report.Target{Node: fmt.Sprint("node-", i), Named: true}, s, nil)
	}
	f.Add(report.Target{Node: "node-9", Named: true}, &report.Swept{Answer: report.Answer{BreakerOpen: true}}, errors.New("its look has not ended"))
	f.Breakers = 2
	f.Sort()
	text := words(printed(t, func(p *Printer) { p.FleetSweep(f) }))
	for _, want := range []string{
		"3 of 4 nodes have looked: 3 pods moved to quarantine, 0 removed there, 1 put back; 2.0 KiB freed.", "node-0 3 0 0", "node-1, node-9",
		"its look has not ended",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !f.NeedsPerson() || strings.Contains(text, "node-2") {
		t.Error(text)
	}
}
