package policy_test

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var webName = policy.PodName{Namespace: "shop", Name: "web-0"}

// TestResources checks that a name on the pod-resources socket's list keeps the pod of that name from being released
// by the kubelet's silence, unless another pod has that name. A missing name releases nothing.
func TestResources(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	listed := map[policy.PodName]bool{webName: true}
	tests := []struct {
		name      string
		resources *policy.PodResources
		uids      []parsers.PodUID
		uncertain bool
		want      policy.Truth
		decision  policy.Decision
	}{
		{"listed", &policy.PodResources{Names: listed}, nil, false, policy.Yes, policy.Keep},
		{"listed, and known by its own name only", &policy.PodResources{Names: listed}, []parsers.PodUID{testkit.PodUID}, false, policy.Yes, policy.Keep},
		{"its successor has the name", &policy.PodResources{Names: listed}, []parsers.PodUID{testkit.PodUID, other}, false, policy.No, policy.Reap},
		{"not listed", &policy.PodResources{Names: map[policy.PodName]bool{{Namespace: "shop", Name: "web-1"}: true}}, nil, false, policy.No, policy.Reap},
		{"another namespace's", &policy.PodResources{Names: map[policy.PodName]bool{{Namespace: "test", Name: "web-0"}: true}}, nil, false, policy.No, policy.Reap},
		{"nobody knows its name", &policy.PodResources{Names: listed}, nil, true, policy.Unknown, policy.Reap},
		{"silent", &policy.PodResources{Names: listed, Silent: "no answer in time"}, nil, false, policy.Unknown, policy.Reap},
		{"not asked", nil, nil, false, policy.Unknown, policy.Reap},
	}
	for _, tt := range tests {
		s := testkit.DeadPod()
		s.Pod.Facts.Set(policy.FactNamed, policy.No, "", "")
		s.Pod.Namespace, s.Pod.PodName, s.Pod.CertainName = webName.Namespace, webName.Name, !tt.uncertain
		l := policy.Look{Resources: tt.resources, UIDs: map[policy.PodName][]parsers.PodUID{webName: tt.uids}}
		s.Pod.Facts[policy.FactPodResources] = l.ListedByName(&s.Pod)
		v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now)
		got := s.Pod.Facts[policy.FactPodResources].Truth
		if got != tt.want || v.Decision != tt.decision || v.For(policy.ReasonPodResources) != (tt.want == policy.Yes) {
			t.Errorf("%s: %s, %s %v; want %s, %s", tt.name, got, v.Decision, v.Why, tt.want, tt.decision)
		}
		s.Pod.Facts.Set(policy.FactNamed, policy.Yes, "", "")
		if v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now); v.Decision != policy.Reap {
			t.Errorf("%s: the pod is kept, but the kubelet reports it: %v", tt.name, v.Why)
		}
		s.Pod.Facts.Set(policy.FactNamed, policy.No, "", "")
		s.Pod.Facts.Set(policy.FactAnyNamed, policy.No, "", "")
		if v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now); v.Decision != policy.Keep {
			t.Errorf("%s: a pod that was not released is reaped", tt.name)
		}
	}
}
