package policy

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// stoppedScene is a pod that the kubelet reports as an orphan and of which the runtime has a stopped sandbox with an
// exited container.
func stoppedScene() *scene {
	s := deadScene()
	s.ev.Facts.Set(FactSandbox, Yes, "test", "sandbox aaaa NOTREADY, created 3h ago")
	s.ev.Facts.Set(FactContainer, Yes, "test", "container bbbb EXITED")
	s.ev.Sandboxes = []Sandbox{{ID: strings.Repeat("a", 64), Socket: "/s", Created: s.now.Wall.Add(-3 * time.Hour)}}
	s.hold = Hold{Ended: s.ago(cleanedWithin)}
	return s
}

func (s *scene) judge() Verdict { return Judge(s.ev, s.node, s.hold, s.rules, s.now) }

func reasonsOf(v Verdict) []Reason {
	var rs []Reason
	for _, w := range v.Why {
		rs = append(rs, w.Reason)
	}
	return rs
}

func TestSandboxOrphaned(t *testing.T) {
	s := stoppedScene()
	v := s.judge()
	want := []Reason{ReasonSandbox, ReasonContainer, ReasonSandboxOrphaned}
	if v.Decision != Keep || !slices.Equal(reasonsOf(v), want) || v.Hold != s.hold || v.Living() {
		t.Errorf("%+v", v)
	}
	if !strings.Contains(v.Why[2].Detail, "3h0m0s old") {
		t.Errorf("no age in %q", v.Why[2].Detail)
	}
}

// TestSandboxBeingCleaned checks that the kubelet's garbage collection gets its time before the operator has to act.
func TestSandboxBeingCleaned(t *testing.T) {
	for _, ended := range []time.Duration{0, time.Minute, cleanedWithin - time.Second} {
		s := stoppedScene()
		s.hold = Hold{}
		want := s.now
		if ended > 0 {
			want = s.ago(ended)
			s.hold.Ended = want
		}
		v := s.judge()
		if v.Decision != Wait || !slices.Equal(reasonsOf(v), []Reason{ReasonSandbox}) || v.Living() || v.Hold != (Hold{Ended: want}) ||
			v.Due != cleanedWithin-ended || OutlookOf(v.Decision, v.Why) != OutlookQuiet || !strings.HasSuffix(v.Why[0].Detail, "within minutes") {
			t.Errorf("ended %s ago: %+v", ended, v)
		}
	}
	s := stoppedScene()
	s.hold = Hold{Ended: s.ago(time.Minute)}
	s.ev.Sandboxes[0].Ready = true
	if v := s.judge(); v.Decision != Keep || !v.Living() || v.Hold.Ended != (Instant{}) {
		t.Errorf("running pod: %+v", v)
	}
}

// runningScene is a running pod that the kubelet's list has not contained for an hour.
func runningScene() *scene {
	s := deadScene()
	s.ev.Facts.Set(FactSandbox, Yes, "test", "sandbox aaaa READY")
	s.ev.Facts.Set(FactCgroup, Yes, "test", "")
	s.ev.Sandboxes = []Sandbox{{ID: "a", Ready: true}}
	s.ev.Unwanted = "the kubelet's list of 3 pods has it not"
	s.hold.Unwanted = s.ago(time.Hour)
	s.node.Gauges.Working = []WorkingPods{{Lifecycle: "terminating", Config: "orphan", Count: 1}, {Lifecycle: "terminated", Config: "desired", Count: 9}}
	s.node.Gauges.OrphanedRuntimePods = new(int64(4))
	return s
}

func TestTerminating(t *testing.T) {
	s := runningScene()
	v := s.judge()
	if !v.For(ReasonTerminating) || !v.For(ReasonSandbox) || v.Decision != Keep || v.Living() || v.Hold.Unwanted != s.hold.Unwanted || v.Again != 0 {
		t.Errorf("%+v", v)
	}
	i := slices.IndexFunc(v.Why, func(w Why) bool { return w.Reason == ReasonTerminating })
	want := "the runtime has had it for 1h0m0s, though the kubelet's list of 3 pods has it not; " +
		"pods that the kubelet is still terminating (kubelet_working_pods): 1; " +
		"found in the runtime since its start (kubelet_orphaned_runtime_pods_total): 4"
	if v.Why[i].Detail != want {
		t.Errorf("%q", v.Why[i].Detail)
	}
	for name, c := range map[string]struct {
		change func(*scene)
		again  bool // may end as terminating later
		want   bool
	}{
		"not for long":              {func(s *scene) { s.hold.Unwanted = s.ago(9 * time.Minute) }, true, false},
		"for the first time":        {func(s *scene) { s.hold.Unwanted = Instant{} }, true, false},
		"before another boot":       {func(s *scene) { s.hold.Unwanted.BootID = "boot-0" }, true, false},
		"wanted":                    {func(s *scene) { s.ev.Unwanted = "" }, false, false},
		"the API server has it":     {func(s *scene) { s.ev.Facts[FactAPILists].Truth = Yes }, false, false},
		"a static pod":              {func(s *scene) { s.ev.Facts[FactStaticPod].Truth = Yes }, false, false},
		"perhaps a static pod":      {func(s *scene) { s.ev.Facts[FactStaticPod].Truth = Unknown }, false, false},
		"not in the runtime":        {func(s *scene) { s.ev.Facts[FactSandbox].Truth = No }, false, false},
		"runtime unknown":           {func(s *scene) { s.ev.Facts[FactSandbox].Truth = Unknown }, false, false},
		"no kubelet":                {func(s *scene) { s.node.Kubelet.Truth = No }, false, false},
		"the kubelet works on none": {func(s *scene) { s.node.Gauges.Working = s.node.Gauges.Working[1:] }, false, false},
		"no gauges, it runs":        {func(s *scene) { s.node.Gauges = KubeletGauges{} }, false, true},
		"no gauges, it has stopped": {func(s *scene) { s.node.Gauges, s.ev.Sandboxes[0].Ready = KubeletGauges{}, false }, false, false},
		"a container only": {func(s *scene) {
			s.ev.Facts[FactSandbox].Truth, s.ev.Facts[FactContainer].Truth = No, Yes
		}, false, true},
	} {
		s := runningScene()
		c.change(s)
		v := s.judge()
		if v.For(ReasonTerminating) != c.want || (v.Again > 0) != c.again || v.Decision == Reap && name != "not in the runtime" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestTerminatingIsLeftAlone checks that a stopped sandbox needs no operator while the kubelet terminates unwanted
// pods: the sandbox may belong to one of these.
func TestTerminatingIsLeftAlone(t *testing.T) {
	s := stoppedScene()
	s.ev.Unwanted, s.hold.Unwanted, s.node.Gauges = "the list has it not", s.ago(time.Hour), runningScene().node.Gauges
	if v := s.judge(); v.Decision != Keep || !v.For(ReasonTerminating) {
		t.Errorf("%+v", v)
	}
	s.node.Gauges.Working = []WorkingPods{{Lifecycle: "sync", Config: "desired", Count: 3}}
	if v := s.judge(); v.For(ReasonTerminating) {
		t.Errorf("without terminating pods: %+v", v)
	}
}
