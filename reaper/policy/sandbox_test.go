package policy

import (
	"slices"
	"testing"
	"time"
)

func (s *scene) judge() Verdict { return Judge(s.ev, s.node, s.hold, s.rules, s.now) }

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
