package policy

import (
	"strings"
	"testing"
	"time"
)

// TestNotRunning checks that a dead pod with a mounted volume and a cgroup, of which the kubelet reports nothing, is
// kept with the command for the operator. A pod that may live has no such advice.
func TestNotRunning(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *scene)
		want   Outlook
	}{
		{"a stale mount", func(*scene) {}, OutlookPerson},
		{"a cgroup that merely leaked", func(s *scene) { s.ev.Facts.Set(FactMounted, No, "", ""); s.ev.Unmount = "" }, OutlookPerson},
		{"a process is in its cgroup, or nobody could see", func(s *scene) { s.ev.CgroupIdle = false }, OutlookAlive},
		{"its sandbox is ready", func(s *scene) {
			s.ev.Facts.Set(FactSandbox, Yes, "", "")
			s.ev.Sandboxes = []Sandbox{{ID: "a", Ready: true}}
		}, OutlookAlive},
		{"a container runs", func(s *scene) { s.ev.Facts.Set(FactContainer, Yes, "", "") }, OutlookAlive},
		{"the runtime was not asked", func(s *scene) { s.ev.Facts.Set(FactSandbox, Unknown, "", "") }, OutlookAlive},
		{"the containers are not known", func(s *scene) { s.ev.Facts.Set(FactContainer, Unknown, "", "") }, OutlookAlive},
		{"the kubelet lists it", func(s *scene) { s.ev.Facts.Set(FactKubeletLists, Yes, "", "") }, OutlookAlive},
		{"the API server lists it", func(s *scene) { s.ev.Facts.Set(FactAPILists, Yes, "", "") }, OutlookAlive},
		{"a manifest owns it", func(s *scene) { s.ev.Facts.Set(FactStaticPod, Yes, "", "") }, OutlookAlive},
		{"it may just start", func(s *scene) { s.ev.Changed = s.now.Wall.Add(-9 * time.Minute) }, OutlookAlive},
		{"its age is not known", func(s *scene) { s.ev.Changed = time.Time{} }, OutlookAlive},
		{"the kubelet has just started", func(s *scene) { s.node.KubeletID.Start = s.now.Boot - 9*time.Minute }, OutlookAlive},
		{"no kubelet runs", func(s *scene) { s.node.Kubelet.Truth = No }, OutlookAlive},
	}
	for _, tt := range tests {
		s := deadScene()
		s.ev.Facts.Set(FactNamed, No, "", "")
		s.ev.Facts.Set(FactCgroup, Yes, "", "the cgroup kubepods/pod1 exists")
		s.ev.Facts.Set(FactMounted, Yes, "", "mounted at /var/lib/kubelet/pods/1/v (nfs4)")
		s.ev.CgroupIdle, s.ev.Unmount = true, "orphan-reaper unmount 1"
		tt.change(s)
		v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
		look := tt.want == OutlookPerson
		if got := OutlookOf(v.Decision, v.Why); got != tt.want || v.Decision != Keep || v.For(ReasonNotRunning) != look || v.Living() == look {
			t.Errorf("%s: outlook %d, want %d: %s %v", tt.name, got, tt.want, v.Decision, v.Why)
		}
		for _, w := range v.Why {
			if w.Reason == ReasonMounted && strings.HasSuffix(w.Detail, "; if the pod is gone: "+s.ev.Unmount) != look {
				t.Errorf("%s: %q", tt.name, w.Detail)
			}
		}
	}
}
