package policy

import (
	"testing"
	"time"
)

// TestSilenceAlone checks that the log directory and the pod-resources socket keep only a pod that was released by
// the kubelet's silence. They do not outweigh the kubelet's report, a complete list or Rules.Waive.
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

// TestPodLogsKeep checks that the log directory keeps a completed pod whose sandboxes were removed: only its kubelet
// knows it. Without the log directory the report of another orphan would release such a pod.
func TestPodLogsKeep(t *testing.T) {
	s := deadScene()
	s.ev.Facts.Set(FactNamed, No, "", "")
	if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Reap {
		t.Fatalf("without the log directory the pod is not reaped: %v", v.Why)
	}
	for truth, want := range map[Truth]Reason{Yes: ReasonPodLogs, Unknown: ReasonKubeletUnknown} {
		s.ev.Facts.Set(FactPodLogs, truth, "/var/log/pods", "as the test says")
		v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
		if v.Decision != Keep || !v.For(want) || len(v.Why) != 1 {
			t.Errorf("pod_logs %s: %s %v, want keep for %s", truth, v.Decision, v.Why, want)
		}
		if alive := OutlookOf(v.Decision, v.Why) == OutlookAlive; alive != (truth == Yes) {
			t.Errorf("pod_logs %s: alive: %t", truth, alive)
		}
		if v.Living() { // a kubelet may be slow to remove an orphan's log directory
			t.Errorf("pod_logs %s: no later look inspects the pod", truth)
		}
	}
}

// TestLogsRemovedDuringTheHold checks that a completed pod gets a whole hold after its log directory, the only sign
// that it is wanted, was removed. The hold of a pod that the kubelet reports is not restarted: a backlog whose log
// directories cannot be removed takes one hold.
func TestLogsRemovedDuringTheHold(t *testing.T) {
	for _, fact := range []FactName{FactPodLogs, FactPodResources} {
		for _, before := range []Truth{Yes, Unknown} {
			if fact == FactPodResources && before == Unknown {
				continue // most nodes have no such socket
			}
			for _, reported := range []bool{false, true} {
				s := deadScene()
				s.hold = Hold{}
				s.ev.Facts.Set(FactNamed, No, "", "")
				s.ev.Facts.Set(fact, before, "test", "as the test says")
				look := func() Verdict {
					v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
					s.hold = v.Hold
					s.now.Boot, s.now.Wall = s.now.Boot+time.Minute, s.now.Wall.Add(time.Minute)
					return v
				}
				for range 60 {
					if v := look(); v.Decision != Keep {
						t.Fatalf("%s %s: %s %v", fact, before, v.Decision, v.Why)
					}
				}
				s.ev.Facts.Set(fact, No, "test", "")
				if reported {
					s.ev.Facts.Set(FactNamed, Yes, "test", "")
				}
				if v := look(); (v.Decision == Reap) != reported {
					t.Errorf("%s was %s and is no, reported %t: %s %v", fact, before, reported, v.Decision, v.Why)
				}
				for range 5 {
					look()
				}
				if v := look(); v.Decision != Reap {
					t.Errorf("%s was %s, a hold later: %s %v", fact, before, v.Decision, v.Why)
				}
			}
		}
	}
}
