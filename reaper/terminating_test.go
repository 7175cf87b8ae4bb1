package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestTerminatingRemembered checks that the time since when a pod is not wanted outlives the daemon, and that the
// next look comes when that time is long enough to be logged.
func TestTerminatingRemembered(t *testing.T) {
	n := newFakeNode()
	n.add(1, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes, policy.FactCgroup: policy.Yes})
	n.unwanted = "the kubelet's list has it not"
	rep := mustPass(t, n.reaper(t, testRules))
	if v := rep.Pods[0]; v.For(policy.ReasonTerminating) || !v.Living() || rep.Next != 10*time.Minute || len(n.logged) != 0 {
		t.Fatalf("%+v, next %s, logged %v", v, rep.Next, n.logged)
	}
	n.pass(rep.Next)
	rep = mustPass(t, n.reaper(t, testRules))
	if v := rep.Pods[0]; !v.For(policy.ReasonTerminating) || len(n.logged) != 1 {
		t.Fatalf("%+v, logged %v", v, n.logged)
	}
	n.unwanted = "" // the pod is wanted again, or a restarted kubelet corrects its list
	mustPass(t, n.reaper(t, testRules))
	n.unwanted = "the kubelet's list has it not"
	if v := mustPass(t, n.reaper(t, testRules)).Pods[0]; v.For(policy.ReasonTerminating) {
		t.Errorf("the time was not reset: %+v", v)
	}
}
