package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestNetworkDown checks that while the pods' network is not ready the kubelet's silence releases no pod, also after
// a restart, until the network has been ready for a confirm time: a living pod may wait for the network without
// showing anywhere on the node. A pod that the kubelet reports is removed all the same.
func TestNetworkDown(t *testing.T) {
	rules := noHold()
	for _, down := range []policy.Fact{{Truth: policy.No, Detail: "cni config uninitialized"}, {Detail: "no answer in time"}} {
		n := newFakeNode()
		n.node.Network = down
		n.add(1, nil)
		r := n.reaper(t, rules)
		r.memory.Proven = true
		n.add(2, nil)
		mustPass(t, r, n.claim(2))
		n.pass(time.Hour)
		rep := mustPass(t, r, n.claim(2))
		if n.pods[uidOf(1)] == nil || n.pods[uidOf(2)] != nil {
			t.Fatalf("%s: pods %v", down.Truth, n.pods)
		}
		if v := rep.Pods[0]; v.Decision != policy.Keep || !v.For(policy.ReasonKubeletUnknown) {
			t.Errorf("%s: %+v", down.Truth, v)
		}
		n.node.Network = policy.Fact{Truth: policy.Yes}
		for range 2 { // the saved state outlives the process
			n.pass(rules.Confirm / 2)
			r = n.reaper(t, rules)
			r.memory.Proven = true
			if mustPass(t, r); n.pods[uidOf(1)] == nil {
				t.Fatalf("%s: the pod was removed as soon as the network was ready", down.Truth)
			}
		}
		n.pass(rules.Confirm)
		if mustPass(t, r); n.pods[uidOf(1)] != nil {
			t.Errorf("%s: the pod is kept although the network has been ready for a confirm time", down.Truth)
		}
	}
}

// TestNetworkDownConfirm checks that the confirm time of a pod that was released by silence stops while the pods'
// network is not ready: its kubelet would not make the directory again, and that is the sign of life.
func TestNetworkDownConfirm(t *testing.T) {
	rules := noHold()
	n := newFakeNode()
	p := n.add(1, nil)
	n.add(2, map[policy.FactName]policy.Truth{policy.FactStaged: policy.Yes})
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(2))
	if len(n.quarantine) != 1 {
		t.Fatal("the pod was not parked")
	}
	n.node.Network = policy.Fact{Truth: policy.No, Detail: "cni config uninitialized"}
	for range 3 {
		n.pass(rules.Confirm)
		mustPass(t, r)
	}
	if p.files != 3 {
		t.Fatal("the pod was confirmed while the network was not ready")
	}
	n.node.Network = policy.Fact{Truth: policy.Yes}
	n.pass(rules.Confirm / 2)
	if mustPass(t, r); p.files != 3 {
		t.Fatal("the pod was confirmed as soon as the network was ready")
	}
	n.pass(rules.Confirm + time.Minute)
	if mustPass(t, r); p.files != 0 {
		t.Error("the pod was not confirmed although the network has been ready for a confirm time")
	}
}
