package policy

import (
	"maps"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

var webName = PodName{"shop", "web-0"}

// TestTellResources: a name that the kubelet lists keeps the pod of that name from being let go by
// silence, unless another pod is known by it. That it lists it not lets nothing go.
func TestTellResources(t *testing.T) {
	const other = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	listed := map[PodName]bool{webName: true}
	tests := []struct {
		name      string
		resources *PodResources
		uids      []parsers.PodUID
		uncertain bool
		want      Truth
		decision  Decision
	}{
		{"listed", &PodResources{Names: listed}, nil, false, Yes, Keep},
		{"listed, and known by its own name only", &PodResources{Names: listed}, []parsers.PodUID{testUID}, false, Yes, Keep},
		{"its successor has the name", &PodResources{Names: listed}, []parsers.PodUID{testUID, other}, false, No, Reap},
		{"not listed", &PodResources{Names: map[PodName]bool{{"shop", "web-1"}: true}}, nil, false, No, Reap},
		{"another namespace's", &PodResources{Names: map[PodName]bool{{"test", "web-0"}: true}}, nil, false, No, Reap},
		{"nobody knows its name", &PodResources{Names: listed}, nil, true, Unknown, Reap},
		{"silent", &PodResources{Names: listed, Silent: "no answer in time"}, nil, false, Unknown, Reap},
		{"not asked", nil, nil, false, Unknown, Reap},
	}
	for _, tt := range tests {
		s := deadScene()
		s.ev.Facts.Set(FactNamed, No, "", "")
		s.ev.Namespace, s.ev.PodName, s.ev.CertainName = webName.Namespace, webName.Name, !tt.uncertain
		l := Look{Resources: tt.resources, UIDs: map[PodName][]parsers.PodUID{webName: tt.uids}}
		l.TellResources(&s.ev)
		v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
		if got := s.ev.Facts[FactPodResources].Truth; got != tt.want || v.Decision != tt.decision || v.For(ReasonPodResources) != (tt.want == Yes) {
			t.Errorf("%s: %s, %s %v; want %s, %s", tt.name, got, v.Decision, v.Why, tt.want, tt.decision)
		}
		s.ev.Facts.Set(FactNamed, Yes, "", "")
		if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Reap {
			t.Errorf("%s: the kubelet named the pod itself, and it is kept: %v", tt.name, v.Why)
		}
		s.ev.Facts.Set(FactNamed, No, "", "")
		s.ev.Facts.Set(FactAnyNamed, No, "", "")
		if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Keep {
			t.Errorf("%s: nobody let the pod go, and it goes", tt.name)
		}
	}
}

// TestAcquaint: a name is remembered for as long as the pod has a directory, and only where it is
// the pod's own.
func TestAcquaint(t *testing.T) {
	pod := func(uid, name string, certain bool) Evidence {
		return Evidence{UID: parsers.PodUID(uid), Namespace: "shop", PodName: name, CertainName: certain}
	}
	l := Look{Pods: []Evidence{pod("a", "web-0", true), pod("b", "host-name", false), pod("", "", false)}}
	names := l.FillNames(map[parsers.PodUID]PodName{"c": {"shop", "gone"}})
	if want := (map[parsers.PodUID]PodName{"a": {"shop", "web-0"}}); !maps.Equal(names, want) {
		t.Errorf("remembered %v, want %v", names, want)
	}
	l = Look{Pods: []Evidence{pod("a", "host-name", false), {UID: "b"}}}
	if names = l.FillNames(names); len(names) != 1 {
		t.Errorf("remembered %v", names)
	}
	if e := l.Pods[0]; e.PodName != "web-0" || e.Namespace != "shop" || !e.CertainName {
		t.Errorf("its name is %s/%s", e.Namespace, e.PodName)
	}
	if e := l.Pods[1]; e.PodName != "" || e.CertainName {
		t.Errorf("a pod that nobody named is called %s", e.PodName)
	}
}
