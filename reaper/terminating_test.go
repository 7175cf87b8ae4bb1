package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestFirstNotProved: the first pod cannot be stripped. Until it can, no other is parked.
func TestFirstNotProved(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	rules := noHold()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	other := n.add(2, nil)
	n.stays = true
	n.pass(rules.Confirm)
	mustPass(t, r, n.claim(2))
	if n.pods[uidOf(2)] != other || r.memory.Proven {
		t.Fatalf("pods %v", n.pods)
	}
	n.stays = false
	n.pass(time.Hour)
	mustPass(t, r, n.claim(2))
	if n.pods[uidOf(2)] != nil {
		t.Errorf("after the first proved dead: pods %v", n.pods)
	}
}

// TestTerminatingRemembered: since when a pod has not been wanted outlives the daemon, and
// the next look comes when it can be told.
func TestTerminatingRemembered(t *testing.T) {
	n := newFakeNode()
	n.add(1, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes, policy.FactCgroup: policy.Yes})
	n.unwanted = "the kubelet's list has it not"
	rep := mustPass(t, n.reaper(t, testRules))
	if v := rep.Pods[0]; v.For(policy.ReasonTerminating) || !v.Living() || rep.Next != 10*time.Minute || len(n.told) != 0 {
		t.Fatalf("%+v, next %s, told %v", v, rep.Next, n.told)
	}
	n.pass(rep.Next)
	rep = mustPass(t, n.reaper(t, testRules))
	if v := rep.Pods[0]; !v.For(policy.ReasonTerminating) || len(n.told) != 1 {
		t.Fatalf("%+v, told %v", v, n.told)
	}
	n.unwanted = "" // it is wanted again, or its kubelet was restarted and knows better
	mustPass(t, n.reaper(t, testRules))
	n.unwanted = "the kubelet's list has it not"
	if v := mustPass(t, n.reaper(t, testRules)).Pods[0]; v.For(policy.ReasonTerminating) {
		t.Errorf("the time has gone on: %+v", v)
	}
}
