package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

const testLeaf = "volumes/kubernetes.io~nfs/exports"

// leafReport holds a pod that the kubelet's volume manager holds, before its leaf is cleared
// or after.
func leafReport(cleared bool) reaper.Report {
	r := only(testReport())
	e := evidence(uidMounted, "db", "postgres-1", skeleton, policy.Residue{Path: testLeaf, Class: contents.ClassData, Bytes: 8192, Entries: 3})
	e.Facts.Set(policy.FactTeardown, policy.Yes, "log of the kubelet, PID 812",
		"the kubelet's volume manager cannot tear down /var/lib/kubelet/pods/"+string(uidMounted)+"/"+testLeaf+": it is not empty")
	v := policy.Verdict{
		UID: uidMounted, Name: string(uidMounted), Decision: policy.Wait, Leaves: []string{testLeaf},
		Why: []policy.Why{{Reason: policy.ReasonKubeletHolds, Detail: e.Facts[policy.FactTeardown].Detail}},
	}
	r.Look.Pods, r.Verdicts, r.Entries = []policy.Evidence{e}, []policy.Verdict{v}, nil
	if !cleared {
		return r
	}
	entry := string(uidMounted) + ".1795144455" + policy.LeafSuffix
	left := []policy.Residue{{Path: testLeaf, Class: contents.ClassData, Bytes: 8192, Entries: 3}}
	r.Outcomes = []policy.Outcome{{
		Action: policy.Action{Kind: policy.Clear, UID: uidMounted, Entry: entry, Leaf: testLeaf, Evidence: &e},
		Result: policy.Done, Left: left,
	}}
	r.Entries = []policy.EntryState{{
		Entry: entry, UID: uidMounted, Phase: policy.PhaseConfirmed, Namespace: "db", PodName: "postgres-1", Leaf: testLeaf, Why: v.Why,
		Parked: policy.Parked{At: at(time.Minute)}, ConfirmedAt: at(time.Minute), Left: left,
	}}
	return r
}

// TestLeaf: what a person reads of a leaf that is to be cleared, and of one that was.
func TestLeaf(t *testing.T) {
	var out bytes.Buffer
	a := &cli{stdout: &out, env: func(string) string { return "" }, deps: fakeDeps(func(string) string { return "" }), output: "text"}
	cfg := config.Default()
	steps := []struct {
		title string
		run   func() error
	}{
		{"scan", func() error { return a.scanned(cfg, leafReport(false)) }},
		{"explain", func() error { return a.explain(t.Context(), cfg, leafReport(false), uidMounted) }},
		{"sweep --dry-run", func() error { return a.printSweep(cfg, leafReport(false), true) }},
		{"sweep", func() error { return a.printSweep(cfg, leafReport(true), false) }},
		{"quarantine list", func() error {
			p := a.printer(&out)
			p.Quarantine(ui.NewQuarantine(leafReport(true).Entries, nil, nil, a.viewContext(cfg)))
			return p.Flush()
		}},
		{"explain, when the pod is gone", func() error {
			r := leafReport(true)
			r.Look.Pods, r.Verdicts = nil, nil
			return a.explain(t.Context(), cfg, r, uidMounted)
		}},
	}
	for _, s := range steps {
		out.WriteString("=== " + s.title + "\n")
		if err := s.run(); err != nil {
			t.Errorf("%s: %v: nothing of this is a matter for a person", s.title, err)
		}
	}
	fits(t, "leaf.txt", out.String())
	for _, want := range []string{
		"# clear    1 pod: a sweep would quarantine what keeps", "Dead, but the kubelet cannot finish.", "would-quarantine\t" + string(uidMounted),
		"\nquarantined\t" + string(uidMounted), "moved from", "\n    orphan-reaper quarantine restore " + string(uidMounted),
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	a.output = "json"
	if err := a.printSweep(cfg, leafReport(false), true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\"clear\": [\n        \""+testLeaf+"\"\n") {
		t.Errorf("the leaf is not in %s", out.String())
	}
}

// scanned writes what scan shows of a report.
func (a *cli) scanned(cfg config.Config, r reaper.Report) error {
	v := ui.NewReport(r, a.viewContext(cfg))
	p := a.printer(a.stdout)
	p.Report(&v)
	return p.Flush()
}
