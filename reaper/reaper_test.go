package reaper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

var testRules = policy.Rules{Hold: 5 * time.Minute, Confirm: 2 * time.Minute, Retention: 24 * time.Hour}

func mustPass(t *testing.T, r *Reaper, claims ...reported.Claim) Report {
	t.Helper()
	n, ok := r.Ledger.(*fakeNode)
	if !ok {
		t.Fatalf("the ledger is %T", r.Ledger)
	}
	rep, err := r.Pass(context.Background(), Options{Claims: slices.Concat(claims, n.reports())})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestPodFromLineToRemoval follows a pod from the kubelet's line to its removal: two looks a hold apart, parked,
// confirmed, removed. Each step is logged once.
func TestPodFromLineToRemoval(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	r := n.reaper(t, testRules)
	rep := mustPass(t, r, n.claim(1))
	if rep.Pods[0].Decision != policy.Wait || rep.Next != testRules.Hold {
		t.Fatalf("first look: %+v, next %s", rep.Pods[0], rep.Next)
	}
	n.pass(rep.Next)
	rep = mustPass(t, r)
	if len(n.quarantine) != 1 || len(n.pods) != 0 || rep.Next != testRules.Confirm {
		t.Fatalf("after the hold: pods %v, quarantine %v, next %s", n.pods, n.quarantine, rep.Next)
	}
	n.pass(rep.Next)
	rep = mustPass(t, r)
	if len(n.quarantine) != 0 {
		t.Fatalf("after confirm: %v", n.quarantine)
	}
	if rep.Next != time.Hour || rep.Pending {
		t.Errorf("after the removal: next look in %s", rep.Next)
	}
	want := []policy.Kind{policy.KindKept, policy.KindParking, policy.KindParked, policy.KindStripping, policy.KindRemoved}
	if got := n.kinds(uidOf(1)); !slices.Equal(got, want) {
		t.Errorf("logged %v, want %v", got, want)
	}
}

// TestMountBetweenLookAndRename checks that a pod goes back if the mount scan after parking finds a mount or fails.
// Without the scan the pod would be stripped with the mount in it.
func TestMountBetweenLookAndRename(t *testing.T) {
	for _, truth := range []policy.Truth{policy.Yes, policy.Unknown} {
		n := newFakeNode()
		p := n.add(1, nil)
		n.scans[uidOf(1)] = policy.Fact{Truth: truth, Detail: "mounted at the last moment"}
		rules := noHold()
		rep := mustPass(t, n.reaper(t, rules), n.claim(1))
		if n.pods[uidOf(1)] != p || len(n.quarantine) != 0 || p.files != 3 {
			t.Errorf("%s: not put back: %v", truth, rep.Outcomes)
		}
		if n.BreakerOpen() {
			t.Errorf("%s: a late mount opened the breaker", truth)
		}
	}
}

// TestMountBeforeRemoval checks that a mount that comes between the look and the removal stops the removal.
func TestMountBeforeRemoval(t *testing.T) {
	for _, truth := range []policy.Truth{policy.Yes, policy.Unknown} {
		n := newFakeNode()
		p := n.add(1, nil)
		rules := noHold()
		rules.Retention = time.Hour
		r := n.reaper(t, rules)
		mustPass(t, r)
		n.pass(rules.Confirm)
		n.scans[uidOf(1)] = policy.Fact{Truth: truth, Detail: "mounted at the last moment"}
		if mustPass(t, r); p.files != 3 {
			t.Fatalf("%s: %d of 3 files remain", truth, p.files)
		}
		delete(n.scans, uidOf(1))
		if mustPass(t, r); p.files == 3 {
			t.Fatalf("%s: nothing was removed without the mount", truth)
		}
	}
}

// TestSignOfLife checks that a parked pod goes back if its directory was made again, that the new directory becomes a
// conflict, and that nothing more is parked until the operator runs "resume".
func TestSignOfLife(t *testing.T) {
	n := newFakeNode()
	rules := noHold()
	p := n.add(1, nil)
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	n.add(2, nil)
	remade := n.add(1, nil)
	n.pass(rules.Confirm)
	mustPass(t, r)
	if n.pods[uidOf(1)] != p || p.files != 3 {
		t.Fatal("the living pod's directory was not put back whole")
	}
	if len(n.quarantine) != 1 {
		t.Fatalf("quarantine: %v", n.quarantine)
	}
	for _, q := range n.quarantine {
		if q != remade {
			t.Error("the conflict is not the directory that was made again")
		}
	}
	if !n.BreakerOpen() {
		t.Fatal("the breaker is closed")
	}
	for range 3 {
		n.pass(time.Hour)
		rep := mustPass(t, n.reaper(t, rules), n.claim(2))
		if !rep.Stopped || !strings.Contains(rep.Summary(rules), "quarantine resume") {
			t.Errorf("the status line does not show the open breaker: %s", rep.Summary(rules))
		}
	}
	if n.pods[uidOf(2)] == nil {
		t.Fatal("a pod was parked with the breaker open")
	}
	resume(t, r)
	n.pods[uidOf(1)].facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
	mustPass(t, r, n.claim(2))
	if n.pods[uidOf(2)] != nil {
		t.Error("nothing is parked after resume")
	}
	if len(n.quarantine) < 1 || n.quarantine[remadeEntry(n, remade)] == nil {
		t.Error("the conflict was purged")
	}
}

func remadeEntry(n *fakeNode, p *fakePod) string {
	for entry, q := range n.quarantine {
		if q == p {
			return entry
		}
	}
	return ""
}

// TestSignOfLifeStopsRemoval checks that if one of several parked pods proves alive nothing of the others is removed,
// in that look or later, until the operator runs "resume": the same evidence condemned them. Otherwise they would be
// stripped in the very look that put the first back.
func TestSignOfLifeStopsRemoval(t *testing.T) {
	n := newFakeNode()
	rules := noHold()
	n.add(0, nil)
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(0))
	n.pass(rules.Confirm)
	mustPass(t, r) // the first pod has proved dead, so the others are parked
	one, other := n.add(1, nil), n.add(2, nil)
	mustPass(t, r, n.claim(1))
	if len(n.quarantine) != 2 {
		t.Fatalf("parked %v", n.quarantine)
	}
	n.add(1, nil) // its kubelet made the directory again
	for range 5 {
		n.pass(rules.Confirm)
		mustPass(t, r)
	}
	if n.pods[uidOf(1)] != one || !n.BreakerOpen() {
		t.Fatal("the living pod was not put back")
	}
	if other.files != 3 {
		t.Fatalf("%d of 3 files remain of the other pod", other.files)
	}
	resume(t, r)
	n.pods[uidOf(1)].facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
	mustPass(t, r)
	if other.files != 0 {
		t.Error("after resume the other pod is still in quarantine")
	}
}

// TestCutOff kills the process before every step of a story with a safe pod, one with data and one that proves alive,
// and lets the next start finish: the end is always the same, and ledger and disk agree.
func TestCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		n := newFakeNode()
		n.add(1, nil)
		n.add(2, nil).data = true
		n.add(3, map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes})
		n.cutAt = cut
		wasCut := story(t, n)
		n.cutAt = 0
		for range 3 {
			story(t, n)
		}
		if len(n.pods) != 1 || n.pods[uidOf(3)] == nil || len(n.quarantine) != 1 {
			t.Fatalf("cut at %d: pods %v, quarantine %v", cut, n.pods, n.quarantine)
		}
		for entry, s := range n.Entries() {
			if on := n.quarantine[entry] != nil; on != (s.Phase == policy.PhaseConfirmed) {
				t.Fatalf("cut at %d: entry %s: phase %s, on disk %t", cut, entry, s.Phase, on)
			}
		}
		if !wasCut {
			if cut < 15 {
				t.Fatalf("the story has only %d steps", cut)
			}
			return
		}
	}
}

// TestCutBeforeParking kills the process between the intent and the move. The pod was not moved, so it is not logged
// as put back, no second intent is written, and its manifest is removed.
func TestCutBeforeParking(t *testing.T) {
	var n *fakeNode
	for cut := 1; ; cut++ {
		n = newFakeNode()
		n.add(1, nil)
		n.cutAt = cut
		if !story(t, n) {
			t.Fatal("the process was never cut between intent and move")
		}
		if k := len(n.records); k > 0 && n.records[k-1].Kind == policy.KindParking && n.pods[uidOf(1)] != nil {
			break
		}
	}
	n.cutAt = 0
	intent := n.records[len(n.records)-1]
	begun := len(n.records)
	mustPass(t, n.reaper(t, testRules))
	got := n.records[begun:]
	if len(got) == 0 || got[0].Kind != policy.KindNotParked || got[0].Entry != intent.Entry || n.Entries()[intent.Entry].Phase != policy.PhaseGone {
		t.Errorf("records %+v", got)
	}
	for _, r := range got {
		if r.Kind == policy.KindPutting || r.Kind == policy.KindPutBack {
			t.Errorf("record %+v", r)
		}
	}
	if n.tidied != 1 {
		t.Errorf("the manifest was not removed: %d batches without an action", n.tidied)
	}
}

// story runs a daemon until nothing changes or it is cut off.
func story(t *testing.T, n *fakeNode) (cut bool) {
	t.Helper()
	return killed(func() {
		r := n.reaper(t, testRules)
		for range 6 {
			mustPass(t, r, n.claim(1))
			n.pass(testRules.Hold)
		}
	})
}

// TestDryRunChangesNothing checks that a dry run decides like a pass and neither changes the node nor saves anything.
func TestDryRunChangesNothing(t *testing.T) {
	n := newFakeNode()
	for i := range 3 {
		n.add(i, nil)
	}
	rules := noHold()
	n.cutAt = 1 // any change panics
	rep, err := n.reaper(t, rules).Pass(context.Background(), Options{
		DryRun: true, Claims: n.reports(),
	})
	reaps := slices.DeleteFunc(rep.Pods, func(p policy.Judged) bool { return p.Decision != policy.Reap })
	if err != nil || len(reaps) != 3 {
		t.Errorf("%d of 3 pods would be removed, %v", len(reaps), err)
	}
}

// TestObserve checks that mode observe judges, logs and changes nothing.
func TestObserve(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	rules := noHold()
	rules.Observe = true
	rep := mustPass(t, n.reaper(t, rules), n.claim(1))
	if n.pods[uidOf(1)] == nil || len(n.records) != 0 {
		t.Error("mode observe has changed the node")
	}
	if v := rep.Pods[0]; v.Decision != policy.Keep || policy.CountedAs(v.Decision, v.Why) != policy.Reap {
		t.Errorf("%+v should be kept and counted as removable", v)
	}
	if got := n.kinds(uidOf(1)); !slices.Equal(got, []policy.Kind{policy.KindKept}) {
		t.Errorf("logged %v", got)
	}
}

// TestRefusalLoggedOnce checks that a refusal is logged when its reasons change, not at every look or restart, and
// that a living pod is logged only if the kubelet reports it.
func TestRefusalLoggedOnce(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes})
	n.add(2, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes})
	for range 5 {
		mustPass(t, n.reaper(t, testRules), n.claim(1))
		n.pass(time.Minute)
	}
	if len(n.logged) != 1 {
		t.Fatalf("logged %d times", len(n.logged))
	}
	p.facts[policy.FactInUse] = policy.Yes
	mustPass(t, n.reaper(t, testRules), n.claim(2))
	if len(n.kinds(uidOf(1))) != 2 || len(n.kinds(uidOf(2))) != 1 {
		t.Errorf("logged %v and %v", n.kinds(uidOf(1)), n.kinds(uidOf(2)))
	}
}

// TestRestore checks that a restored pod is kept from then on.
func TestRestore(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).data = true
	rules := atOnce()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	o, err := r.Restore(context.Background(), uidOf(1), n.shown(1))
	if err != nil || o.Result != policy.Done || n.pods[uidOf(1)] == nil {
		t.Fatalf("restore: %+v, %v", o, err)
	}
	rep := mustPass(t, n.reaper(t, rules), n.claim(1))
	if n.pods[uidOf(1)] == nil || !rep.Pods[0].For(policy.ReasonRestored) {
		t.Error("a restored pod was parked again")
	}
	if _, err := r.Restore(context.Background(), uidOf(7), n.shown(7)); err == nil {
		t.Error("a pod that is not in quarantine was restored")
	}
}

// TestDataStays checks that only an operator's command purges what may be a user's data (law 5).
func TestDataStays(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).data = true
	rules := atOnce()
	r := n.reaper(t, rules)
	for range 4 {
		mustPass(t, r, n.claim(1))
		n.pass(1000 * time.Hour)
	}
	if len(n.quarantine) != 1 {
		t.Fatal("data was purged")
	}
	n.node.MayEnforce = policy.Fact{Truth: policy.No, Detail: "a private mount namespace"}
	if _, err := purge(t, r, n.shown(1), false); err == nil || len(n.quarantine) != 1 {
		t.Fatalf("purge outside the host's mount namespace: %v", err)
	}
	n.node.MayEnforce.Truth = policy.Yes
	if outs, err := purge(t, r, n.shown(1), false); err != nil || len(outs) != 1 || len(n.quarantine) != 0 {
		t.Errorf("the operator's purge: %+v, %v", outs, err)
	}
}

// TestSweep checks that a sweep waits out hold and confirm, and removes a whole backlog of which the kubelet reported
// one pod.
func TestSweep(t *testing.T) {
	n := newFakeNode()
	for i := range 2044 {
		n.add(i, nil)
	}
	r := n.reaper(t, testRules)
	rep, err := r.Sweep(context.Background(), SweepOptions{
		Read:  func(context.Context) []reported.Claim { return n.reports() },
		Sleep: func(_ context.Context, d time.Duration) error { n.pass(d); return nil },
	})
	if err != nil || len(n.pods) != 0 || len(n.quarantine) != 0 {
		t.Fatalf("%d pods in place and %d in quarantine, %v", len(n.pods), len(n.quarantine), err)
	}
	if len(rep.Pods) != 2044 {
		t.Errorf("the report has %d pods", len(rep.Pods))
	}
	if n.looks > 5 {
		t.Errorf("%d looks", n.looks)
	}
}

// TestOnlySome checks that a pass over selected pods works without saved state and keeps the saved state of the
// others.
func TestOnlySome(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	r := n.reaper(t, testRules)
	pass := func() {
		t.Helper()
		if _, err := r.Pass(context.Background(), Options{Claims: []reported.Claim{n.claim(1)}, Only: []parsers.PodUID{uidOf(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if len(r.memory.Holds) != 1 {
		t.Fatalf("holds %v", r.memory.Holds)
	}
	r.memory.Holds[uidOf(2)] = policy.Hold{Since: n.now}
	pass()
	if len(r.memory.Holds) != 2 {
		t.Errorf("holds after a pass over one pod: %v", r.memory.Holds)
	}
}

// TestUnlisted checks that after the loss of the state directory passes remove nothing from quarantine, and that
// "restore" still puts it back.
func TestUnlisted(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, nil)
	n.quarantine[string(uidOf(1))+".1"] = p
	delete(n.pods, uidOf(1))
	n.quarantine[string(uidOf(2))+".1.conflict"] = p
	n.quarantine["lost+found"] = p
	r := n.reaper(t, testRules)
	mustPass(t, r)
	if len(n.quarantine) != 3 || p.files != 3 {
		t.Fatalf("a pass removed an entry that is not in the ledger: %v", n.quarantine)
	}
	if _, err := r.Restore(context.Background(), uidOf(2), n.shown(2)); err == nil {
		t.Error("a conflict was restored")
	}
	if o, err := r.Restore(context.Background(), uidOf(1), n.shown(1)); err != nil || o.Result != policy.Done || n.pods[uidOf(1)] != p {
		t.Fatalf("restore: %+v, %v", o, err)
	}
	n.pass(time.Hour)
	if rep := mustPass(t, r, n.claim(1)); !rep.Pods[0].For(policy.ReasonRestored) {
		t.Errorf("a restored pod is not kept: %+v", rep.Pods[0])
	}
}

// TestLedgerFirst checks that an intent that cannot be written is not carried out (law 7).
func TestLedgerFirst(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	rules := noHold()
	n.ledgerErr = errors.New("no space left on device")
	rep := mustPass(t, n.reaper(t, rules), n.claim(1))
	if n.pods[uidOf(1)] == nil {
		t.Fatal("a pod was moved without an intent in the ledger")
	}
	if len(rep.Look.Errors) == 0 {
		t.Error("the report has no error")
	}
}
