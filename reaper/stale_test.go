package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestStaleFileStory: kubelets of 1.33 and later leave a deleted pod in allocated_pods_state
// until they take in another one. The orphan goes once it was named, and what still names it
// while it is parked is no sign of life; what is written then is one.
func TestStaleFileStory(t *testing.T) {
	for name, written := range map[string]bool{"as it was": false, "written while the pod is parked": true} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode()
			pod := n.add(1, map[policy.FactName]policy.Truth{policy.FactKubeletFile: policy.Yes})
			pod.stated = []policy.StateFile{{Name: "allocated_pods_state", Written: n.now.Wall.Add(-time.Hour)}}
			r := n.reaper(t, testRules)
			if v := mustPass(t, r).Pods[0]; !v.For(policy.ReasonKubeletFile) {
				t.Fatalf("before it was named: %+v", v)
			}
			mustPass(t, r, n.claim(1))
			n.pass(testRules.Hold)
			mustPass(t, r)
			if len(n.quarantine) != 1 {
				t.Fatalf("it is not parked; pods %v", n.pods)
			}
			if written {
				pod.stated[0].Written = n.now.Wall
			}
			n.pass(testRules.Confirm)
			mustPass(t, r)
			if len(n.quarantine) != 0 || n.BreakerOpen() != written || (len(n.pods) == 1) != written {
				t.Errorf("at the end of confirm: quarantine %v, pods %v, breaker open %t", n.quarantine, n.pods, n.BreakerOpen())
			}
		})
	}
}
