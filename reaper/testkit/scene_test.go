package testkit

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestDeadPod: a test that changes one thing, and sees the pod kept, sees it kept for that.
func TestDeadPod(t *testing.T) {
	s := DeadPod()
	if v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now); v.Decision != policy.Reap {
		t.Errorf("%s %v", v.Decision, v.Why)
	}
}
