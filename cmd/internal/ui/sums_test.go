package ui

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// sumPod is a pod with a verdict, its reasons and the seconds until it could change.
func sumPod(d policy.Decision, due int, reasons ...policy.Reason) podView {
	v := podView{Verdict: d, DueSeconds: due, Reasons: reasons, Residue: []policy.Residue{{Bytes: 1 << 20}}, evidence: &policy.Evidence{}}
	for _, r := range reasons {
		v.Why = append(v.Why, policy.Why{Reason: r})
	}
	return v
}

// TestSums: the first line says how many go when, and how many need a person, with numbers that can be
// read and verbs that go with them.
func TestSums(t *testing.T) {
	now := time.Date(2026, 3, 1, 4, 10, 0, 0, time.UTC)
	reap := sumPod(policy.Reap, 0)
	hold := func(seconds int) podView { return sumPod(policy.Wait, seconds, policy.ReasonHold) }
	stuck := sumPod(policy.Keep, 0, policy.ReasonMounted)
	lives := sumPod(policy.Keep, 0, policy.ReasonSandbox, policy.ReasonMounted)
	cleared := sumPod(policy.Wait, 0, policy.ReasonKubeletHolds)
	cleared.Clear = []string{"volumes/kubernetes.io~nfs/exports"}
	many := func(n int, pod podView) (all []podView) {
		for range n {
			all = append(all, pod)
		}
		return all
	}
	for _, c := range []struct {
		want string
		pods []podView
	}{
		{"Nothing would be removed.", nil},
		{"Nothing would be removed.", []podView{lives, lives}},
		{"4 pods, 4.0 MiB would be removed at 04:12 UTC; 2 need you.", append(many(4, hold(120)), stuck, stuck)},
		{"2 pods, 2.0 MiB would be removed between 04:12 UTC and 2026-03-02 04:10 UTC.", []podView{hold(120), hold(86400)}},
		{"1 pod, 1.0 MiB would be removed now; 1,200 pods, 1.2 GiB after that.", append(many(1200, sumPod(policy.Wait, 0, policy.ReasonLimit)), reap)},
		{"1 pod needs you.", []podView{stuck, lives}},
		{"3,000 pods need you.", many(3000, stuck)},
		// What waits for a doubt to end does not go by the hold alone.
		{"2 pods wait; 1 is kept, as you asked.", []podView{
			sumPod(policy.Wait, 60, policy.ReasonHold, policy.ReasonInUse), sumPod(policy.Wait, 60, policy.ReasonKubeletStarting),
			sumPod(policy.Keep, 0, policy.ReasonObserve),
		}},
		{"1 pod, 1.0 MiB would be removed at 04:11 UTC; 1 waits.", []podView{
			sumPod(policy.Wait, 60, policy.ReasonWaived, policy.ReasonYoung, policy.ReasonHold), sumPod(policy.Wait, 60, policy.ReasonWaived),
		}},
		{"1 pod would be cleared, so that the kubelet can finish; 1 waits.", []podView{cleared, sumPod(policy.Wait, 0, policy.ReasonConfirm)}},
	} {
		s := sumPods(c.pods)
		if got := s.sentence(now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for want, pods := range map[string][]podView{
		"": {reap}, "1 pod lives and is not listed (--all).": {lives}, "1,001 pods live and are not listed (--all).": many(1001, lives),
	} {
		s := sumPods(pods)
		if got := s.living(&Report{}, " (--all)"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEnded: a pod of which the runtime has only what has stopped is kept, asks for nobody, and is not said to live. What
// else shows the pod says that it lives.
func TestEnded(t *testing.T) {
	over := sumPod(policy.Keep, 0, policy.ReasonSandbox, policy.ReasonContainer)
	over.evidence.Sandboxes = []policy.Sandbox{{ID: "a"}}
	over.evidence.Facts.Set(policy.FactSandbox, policy.Yes, "", "")
	over.evidence.Facts.Set(policy.FactContainer, policy.Yes, "", "")
	wanted, ready := over, over
	wanted.Why, wanted.Reasons = append(wanted.Why, policy.Why{Reason: policy.ReasonAPILists}), append(wanted.Reasons, policy.ReasonAPILists)
	ready.evidence = &policy.Evidence{Facts: over.evidence.Facts}
	ready.evidence.Sandboxes = []policy.Sandbox{{ID: "a", Ready: true}}
	s := sumPods([]podView{over, wanted, ready})
	want := "2 pods live and are not listed (--all). 1 pod that has ended stays in the runtime and is not listed (--all)."
	if got := s.living(&Report{}, " (--all)"); got != want || verdictOf(&over) != "keep" || verdictOf(&wanted) != "alive" || verdictOf(&ready) != "alive" {
		t.Errorf("%q, %s %s %s", got, verdictOf(&over), verdictOf(&wanted), verdictOf(&ready))
	}
	for only, lists := range map[string]int{"": 0, "keep": 1, "alive": 0} {
		if v := (Report{only: only}); len(v.listed([]podView{over})) != lists {
			t.Errorf("%q lists %d", only, len(v.listed([]podView{over})))
		}
	}
	if v := (Report{Pods: []podView{over}}); v.NeedsPerson() {
		t.Error("it asks for a person")
	}
	p, _ := testPrinter(80, false)
	if text := (explainer{Printer: p}).summary(&over); strings.Contains(text, "lives") || !strings.Contains(text, "Nothing of this pod runs") {
		t.Error(text)
	}
}

// TestQuarantined: what lies in conflict and what the ledger does not know counts, too.
func TestQuarantined(t *testing.T) {
	c := Context{Now: policy.Instant{Wall: time.Date(2026, 3, 1, 4, 10, 0, 0, time.UTC)}}
	v := Report{Quarantine: []Entry{}}
	v.Lies([]policy.EntryState{
		{Entry: "a", Phase: policy.PhaseConfirmed, Left: []policy.Residue{{Bytes: 2048}}},
		{Entry: "b", Phase: policy.PhaseConflict},
		{Entry: "c", Phase: policy.PhaseUnlisted},
		{Entry: "d", Phase: policy.PhaseUnlisted},
	}, c)
	if got, want := quarantined(v.lying), "In quarantine: 4 entries, 2.0 KiB and 3 of a size not yet known; 1 in conflict; 2 not in the ledger."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	v.Lies([]policy.EntryState{{Entry: "a", Phase: policy.PhaseParked}}, c) // just parked: nobody has looked into it
	if got, want := quarantined(v.lying), "In quarantine: 1 entry, size not yet known."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p, out := testPrinter(80, false)
	p.entryTable(v.lying, c.Now.Wall)
	_ = p.Flush()
	if !strings.Contains(out.String(), "\n1 entry, size not yet known\n") || strings.Contains(out.String(), "0 B") {
		t.Error(out)
	}
	if got := quarantined(nil); got != "" {
		t.Errorf("nothing: %q", got)
	}
}

// TestConflictNeedsPerson: nobody but a person ends a conflict, so scan, sweep and explain ask for one, and
// say how; who asks for another pod is not told of it. What goes by itself, or waits for a purge, asks for nobody.
func TestConflictNeedsPerson(t *testing.T) {
	one := func(uid string, phase policy.Phase) policy.EntryState {
		return policy.EntryState{Entry: uid + "." + string(phase), UID: parsers.PodUID(uid), Phase: phase}
	}
	many := []policy.EntryState{one("a", policy.PhaseConflict), one("b", policy.PhaseConflict), one("c", policy.PhaseConflict), one("d", policy.PhaseConflict)}
	for name, c := range map[string]struct {
		entries []policy.EntryState
		asked   []parsers.PodUID
		want    []string // whose command is shown
	}{
		"nothing":            {nil, nil, nil},
		"no conflict":        {[]policy.EntryState{one("a", policy.PhaseParked), one("b", policy.PhaseConfirmed), one("c", policy.PhaseGone)}, nil, nil},
		"one":                {[]policy.EntryState{one("a", policy.PhaseParked), one("b", policy.PhaseConflict)}, nil, []string{"b"}},
		"twice of one pod":   {[]policy.EntryState{one("b", policy.PhaseConflict), one("b", policy.PhaseConflict)}, nil, []string{"b"}},
		"it is asked for":    {[]policy.EntryState{one("b", policy.PhaseConflict)}, []parsers.PodUID{"a", "b"}, []string{"b"}},
		"another is":         {[]policy.EntryState{one("b", policy.PhaseConflict)}, []parsers.PodUID{"a"}, nil},
		"more than are told": {many, nil, []string{"a", "b", "c"}},
	} {
		v := NewReport(reaper.Report{Entries: c.entries}, Context{})
		v.Asked(c.asked)
		p, out := testPrinter(80, false)
		p.conflicts(&v)
		_ = p.Flush()
		var shown []string
		for line := range strings.Lines(out.String()) {
			if uid, is := strings.CutPrefix(strings.TrimSpace(line), "orphan-reaper explain "); is {
				shown = append(shown, uid)
			}
		}
		if !slices.Equal(shown, c.want) || v.NeedsPerson() != (len(c.want) > 0) || strings.Contains(out.String(), "1 more pod") != (len(c.want) == mostConflicts) {
			t.Errorf("%s: a person %t, %q\n%s", name, v.NeedsPerson(), shown, out)
		}
	}
	r := reaper.Report{Entries: []policy.EntryState{one("a", policy.PhaseConfirmed), one("b", policy.PhaseConflict)}}
	for uid, want := range map[parsers.PodUID]bool{"a": false, "b": true} {
		if x := NewExplanation(r, Context{}, uid, nil); x.NeedsPerson() != want {
			t.Errorf("explain %s: a person %t", uid, !want)
		}
	}
}

// TestRemovedRow: what was removed is parked no more.
func TestRemovedRow(t *testing.T) {
	for outcome, want := range map[string]int{outcomeRemoved: 0, outcomeQuarantined: 1} {
		pods := []podView{{UID: "a", Verdict: policy.Reap, Parked: true, Outcome: outcome, evidence: &policy.Evidence{}}}
		if rows := podRows(pods, never, podEnd); len(rows) != 1 || len(rows[0].Notes) != want {
			t.Errorf("%s: %+v", outcome, rows)
		}
	}
}

// TestCNIGroups: files of which the same is to be said are one row, with the first of their names.
func TestCNIGroups(t *testing.T) {
	var files []cniView
	add := func(n int, v cniView) {
		for i := range n {
			v.Path = "/var/lib/cni/networks/" + v.Network + "/10.0.0." + string(rune('1'+i))
			files = append(files, v)
		}
	}
	keep := func(network string, r policy.Reason) cniView {
		return cniView{Kind: "address", Network: network, Verdict: policy.Keep, Reasons: []policy.Reason{r}, Bytes: 10}
	}
	add(2, keep("blue", policy.ReasonNetns))
	add(5, keep("red", policy.ReasonNetns))
	add(1, keep("red", policy.ReasonForeign))
	add(1, cniView{Kind: "cache", Network: "red", Verdict: policy.Reap, Bytes: 7})
	word := func(v *cniView) (string, Colour) { return string(v.Verdict), "" }
	p, out := testPrinter(100, true)
	p.Table("VERDICT", 9, "CNI", cniRows(files, false, word))
	_ = p.Flush()
	want := strings.Join([]string{
		"reap\tcni\tred\t7\t-\t/var/lib/cni/networks/red: 10.0.0.1",
		"keep\tcni\tred\t50\tnetns\t/var/lib/cni/networks/red: 10.0.0.1, 10.0.0.2, 10.0.0.3 and 2 more",
		"keep\tcni\tblue\t20\tnetns\t/var/lib/cni/networks/blue: 10.0.0.1, 10.0.0.2",
		"keep\tcni\tred\t10\tforeign\t/var/lib/cni/networks/red: 10.0.0.1",
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out, want)
	}
	p, out = testPrinter(100, true)
	p.Table("VERDICT", 9, "CNI", cniRows(files, true, word))
	_ = p.Flush()
	if n := strings.Count(out.String(), "\n"); n != len(files) || !strings.Contains(out.String(), "keep\t/var/lib/cni/networks/red/10.0.0.5\t-\t10\tnetns") {
		t.Errorf("one by one: %d lines\n%s", n, out)
	}
}

// testPrinter writes as on a terminal of so many columns, or into a pipe.
func testPrinter(columns int, piped bool) (*Printer, *bytes.Buffer) {
	var b bytes.Buffer
	p := NewPrinter(&b, func(string) string { return "" })
	p.Columns, p.Piped = columns, piped
	return p, &b
}
