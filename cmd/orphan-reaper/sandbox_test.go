package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/wire"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const uidForgotten parsers.PodUID = "0badf00d-0009-4aaa-8bbb-cccc00000009"

// sandboxReport holds a pod with a directory and one without, of which the runtime keeps a
// sandbox that has stopped; one that only seems to be without; and one that terminates for ever.
func sandboxReport(rules policy.Rules) reaper.Report {
	r := only(testReport())
	r.Entries = nil
	r.Look.Node.Gauges.Working = []policy.WorkingPods{{Lifecycle: "terminating", Config: "runtime_only", Count: 1}}
	r.Look.InRuntime, r.Look.KubeletLists = new(14), new(11)
	box := func(e policy.Evidence, ready bool) policy.Evidence {
		id := strings.Repeat(string(e.UID[12]), 64)
		e.Sandboxes = []policy.Sandbox{{ID: id, Socket: "/run/containerd/containerd.sock", Created: testNow.Add(-9 * time.Hour), Ready: ready}}
		words := "sandbox " + id[:12] + " NOTREADY, created 9h ago"
		if ready {
			words = "sandbox " + id[:12] + " READY, created 9h ago"
		}
		e.Facts.Set(policy.FactSandbox, policy.Yes, "unix:///run/containerd/containerd.sock", words)
		return e
	}
	now := policy.Instant{Wall: testNow, BootID: "b", Boot: 100 * time.Hour}
	ago := policy.Instant{Wall: testNow.Add(-time.Hour), BootID: "b", Boot: 99 * time.Hour}
	judge := func(e policy.Evidence) policy.Verdict {
		n := r.Look.Node
		if e.Unwanted == "" {
			n.Gauges = policy.KubeletGauges{}
		}
		return policy.Judge(e, n, policy.Hold{Since: ago, Sandboxes: true, Unwanted: ago, Ended: ago}, rules, now)
	}
	stuck := box(evidence(uidAlive, "shop", "cart-0", skeleton), true)
	stuck.Facts.Set(policy.FactCgroup, policy.Yes, "/sys/fs/cgroup/kubepods.slice", "kubepods-burstable.slice")
	stuck.Facts.Set(policy.FactNamed, policy.No, "log of the kubelet, PID 812", "")
	stuck.Unwanted = "the kubelet's list of 11 pods has it not"
	for _, e := range []policy.Evidence{box(evidence(uidReap, "default", "web-0", skeleton), false), stuck} {
		r.Look.Pods, r.Verdicts = append(r.Look.Pods, e), append(r.Verdicts, judge(e))
	}
	forgotten, fresh := box(evidence(uidForgotten, "batch", "job-7"), false), box(evidence(uidHold, "batch", "job-8"), true)
	forgotten.RuntimeOnly, fresh.RuntimeOnly = true, true
	fresh.Facts.Set(policy.FactNamed, policy.No, "log of the kubelet, PID 812", "")
	fresh.Facts.Set(policy.FactCgroup, policy.Yes, "/sys/fs/cgroup/kubepods.slice", "kubepods-burstable.slice")
	for _, e := range []policy.Evidence{forgotten, fresh} {
		e.Changed, e.Residue = time.Time{}, nil
		e.Facts.Set(policy.FactDirectory, policy.No, "/var/lib/kubelet/pods", "it is not there")
		r.Look.RuntimeOnly, r.RuntimeOnly = append(r.Look.RuntimeOnly, e), append(r.RuntimeOnly, judge(e))
	}
	return r
}

// removed is the report after the runtime was asked: it removed one and could not the other.
func removed(r reaper.Report) reaper.Report {
	r.Outcomes = []policy.Outcome{
		{Action: policy.Action{Kind: policy.RemoveSandbox, UID: uidReap, Evidence: &r.Look.Pods[0]}, Result: policy.Done},
		{
			Action: policy.Action{Kind: policy.RemoveSandbox, UID: uidForgotten, Evidence: &r.Look.RuntimeOnly[0]},
			Result: policy.Failed, Err: "the runtime cannot stop sandbox 0909: StopPodSandbox: cni config uninitialized (Unknown)",
		},
	}
	return r
}

// TestSandboxes: what a person reads of sandboxes that the runtime forgot, with the setting
// and without, and of a pod that is terminated for ever.
func TestSandboxes(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, env: func(string) string { return "" }, deps: fakeDeps(func(string) string { return "" }), output: "text"}
	cfg := config.Default()
	rules := wire.Rules(cfg)
	keep := sandboxReport(rules)
	rules.RemoveSandboxes = true
	ask := sandboxReport(rules)
	ask.Planned = []policy.Action{{Kind: policy.RemoveSandbox, UID: uidForgotten}}
	for _, s := range []struct {
		title string
		run   func() error
	}{
		{"scan", func() error { return a.scanned(cfg, keep) }},
		{"explain, no directory", func() error { return a.explain(t.Context(), cfg, keep, uidForgotten) }},
		{"explain, terminating", func() error { return a.explain(t.Context(), cfg, keep, uidAlive) }},
		{"scan --remove-sandboxes", func() error { return a.scanned(cfg, ask) }},
		{"explain --remove-sandboxes", func() error { return a.explain(t.Context(), cfg, ask, uidReap) }},
		{"sweep --dry-run", func() error { return a.printSweep(cfg, ask, true) }},
		{"sweep", func() error { return a.printSweep(cfg, removed(ask), false) }},
	} {
		out.WriteString("-- " + s.title + " --\n")
		if err := s.run(); err != nil {
			out.WriteString("error: " + err.Error() + "\n")
		}
	}
	golden(t, "sandboxes.txt", out.String())
	out.Reset()
	a.output = "json"
	if err := a.printSweep(cfg, removed(ask), false); err == nil {
		t.Error("a failure is no error")
	}
	golden(t, "sandboxes.json", out.String())
}
