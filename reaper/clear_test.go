package reaper

import (
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestClearedStory follows a pod that the kubelet's volume manager keeps: two looks a hold apart, then the leaf is
// cleared, and nothing else is moved until the kubelet has removed the pod. Each step is logged once.
func TestClearedStory(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, nil)
	p.leaf = 3
	r := n.reaper(t, testRules)
	rep := mustPass(t, r, n.held())
	if v := rep.Pods[0]; v.Decision != policy.Wait || rep.Next != testRules.Hold || !rep.Pending || p.leaf != 3 {
		t.Fatalf("first look: %+v, next %s", v, rep.Next)
	}
	n.pass(rep.Next)
	rep = mustPass(t, r, n.held())
	if p.leaf != 0 || n.pods[uidOf(1)] != p || len(n.quarantine) != 1 {
		t.Fatalf("after the hold: %d in the leaf, quarantine %v: %+v", p.leaf, n.quarantine, rep.Outcomes)
	}
	if e := rep.Entries[0]; e.Phase != policy.PhaseConfirmed || e.Leaf != fakeLeaf || len(e.Left) != 1 || e.ID == p.id || e.ID == (policy.DirID{}) {
		t.Errorf("in quarantine: %+v", e)
	}
	if rep.Next > 30*time.Second || rep.Pending {
		t.Errorf("before the kubelet's retry: next look in %s", rep.Next)
	}
	n.pass(rep.Next)
	rep = mustPass(t, r)
	if v := rep.Pods[0]; v.Decision != policy.Wait || len(rep.Outcomes) != 0 || rep.Pending {
		t.Errorf("before the kubelet's retry: %+v, %+v", v, rep.Outcomes)
	}
	delete(n.pods, uidOf(1)) // the kubelet has removed it
	n.pass(rep.Next)
	if rep = mustPass(t, r); rep.Next != time.Hour || len(n.quarantine) != 1 {
		t.Errorf("after the pod is gone: next look in %s", rep.Next)
	}
	want := []policy.Kind{policy.KindKept, policy.KindClearing, policy.KindCleared, policy.KindKept}
	if got := n.kinds(uidOf(1)); !slices.Equal(got, want) {
		t.Errorf("logged %v, want %v", got, want)
	}
}

// TestClearMounted checks that the contents of a leaf go back if the mount scan after the move finds a mount or
// fails.
func TestClearMounted(t *testing.T) {
	for _, truth := range []policy.Truth{policy.Yes, policy.Unknown} {
		n, rules := newFakeNode(), noHold()
		p := n.add(1, nil)
		p.leaf = 2
		n.scans[uidOf(1)] = policy.Fact{Truth: truth, Detail: "mounted at the last moment"}
		rep := mustPass(t, n.reaper(t, rules), n.held())
		if p.leaf != 2 || len(n.quarantine) != 0 || len(rep.Entries) != 0 || n.BreakerOpen() {
			t.Errorf("%s: %d in the leaf, %d in quarantine: %+v", truth, p.leaf, len(n.quarantine), rep.Outcomes)
		}
	}
}

// TestClearCutOff kills the process before each step and starts it again: the leaf's contents are in place or in
// quarantine, the ledger agrees, and in the end the leaf is cleared.
func TestClearCutOff(t *testing.T) {
	rules := noHold()
	for cut := 1; ; cut++ {
		n := newFakeNode()
		p := n.add(1, nil)
		p.leaf = 3
		n.cutAt = cut
		died := passUntilCut(t, n, rules)
		n.cutAt = 0
		check := func(when string) int {
			in := 0
			for name, e := range n.Entries() {
				if q := n.quarantine[name]; q != nil {
					in += q.leaf
				}
				if on := n.quarantine[name] != nil; on != (e.Phase == policy.PhaseConfirmed) {
					t.Fatalf("cut %d, %s: on disk %t, phase in the ledger %s", cut, when, on, e.Phase)
				}
			}
			if p.leaf+in != 3 {
				t.Fatalf("cut %d, %s: %d entries in the leaf, %d in quarantine", cut, when, p.leaf, in)
			}
			return in
		}
		r := n.reaper(t, rules)
		r.endCutOff(t.Context(), &Report{Look: policy.Look{Node: n.node}}, r.recover())
		check("after the next start")
		mustPass(t, r, n.held())
		if in := check("after a pass"); in != 3 {
			t.Fatalf("cut %d: %d of 3 entries were cleared", cut, in)
		}
		if !died {
			if cut < 6 {
				t.Fatalf("there are only %d steps", cut-1)
			}
			return
		}
	}
}

func passUntilCut(t *testing.T, n *fakeNode, rules policy.Rules) bool {
	t.Helper()
	return killed(func() { mustPass(t, n.reaper(t, rules), n.held()) })
}
