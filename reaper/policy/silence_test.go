package policy

import "testing"

// TestPodLogsKeep: a completed pod whose sandboxes were removed is known to its kubelet alone. That
// it named another orphan lets such a pod go where nobody looks at the log directory.
func TestPodLogsKeep(t *testing.T) {
	s := deadScene()
	s.ev.Facts.Set(FactNamed, No, "", "")
	if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Reap {
		t.Fatalf("without the log directory it does not go: %v", v.Why)
	}
	for truth, want := range map[Truth]Reason{Yes: ReasonPodLogs, Unknown: ReasonKubeletUnknown} {
		s.ev.Facts.Set(FactPodLogs, truth, "/var/log/pods", "as the test says")
		v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
		if v.Decision != Keep || !v.For(want) || len(v.Why) != 1 {
			t.Errorf("pod_logs %s: %s %v, want keep for %s", truth, v.Decision, v.Why, want)
		}
		if alive := OutlookOf(v.Decision, v.Why) == OutlookAlive; alive != (truth == Yes) {
			t.Errorf("pod_logs %s: called alive: %t", truth, alive)
		}
		if v.Living() { // an orphan whose kubelet is slow to remove it is looked at again soon
			t.Errorf("pod_logs %s: it is not looked at again", truth)
		}
	}
}
