package policy

import "testing"

// TestSilenceAlone: log directory and pod-resources socket are the two sources whose yes keeps only
// what the kubelet's silence lets go. Neither stands against its word, a whole list, or Rules.Waive.
func TestSilenceAlone(t *testing.T) {
	for fact, reason := range map[FactName]Reason{FactPodLogs: ReasonPodLogs, FactPodResources: ReasonPodResources} {
		for name, c := range map[string]struct {
			change func(*scene)
			want   Decision
		}{
			"only silence": {func(*scene) {}, Keep},
			"named":        {func(s *scene) { s.ev.Facts.Set(FactNamed, Yes, "", "") }, Reap},
			"released":     {func(s *scene) { s.ev.Facts.Set(FactReleased, Yes, "", "") }, Reap},
			"waived":       {func(s *scene) { s.rules.Waive = true }, Reap},
		} {
			s := deadScene()
			s.ev.Facts.Set(FactNamed, No, "", "")
			s.ev.Facts.Set(fact, Yes, "test", "as the test says")
			c.change(s)
			if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != c.want || v.For(reason) != (c.want == Keep) {
				t.Errorf("%s, %s: %s %v, want %s", fact, name, v.Decision, v.Why, c.want)
			}
		}
	}
}

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
