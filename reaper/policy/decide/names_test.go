package decide

import (
	"maps"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestFillNames: a name is remembered for as long as the pod has a directory, and only where it is
// the pod's own.
func TestFillNames(t *testing.T) {
	pod := func(uid, name string, certain bool) policy.Evidence {
		return policy.Evidence{UID: parsers.PodUID(uid), Namespace: "shop", PodName: name, CertainName: certain}
	}
	l := policy.Look{Pods: []policy.Evidence{pod("a", "web-0", true), pod("b", "host-name", false), pod("", "", false)}}
	names := fillNames(&l, map[parsers.PodUID]policy.PodName{"c": {Namespace: "shop", Name: "gone"}})
	if want := (map[parsers.PodUID]policy.PodName{"a": {Namespace: "shop", Name: "web-0"}}); !maps.Equal(names, want) {
		t.Errorf("remembered %v, want %v", names, want)
	}
	l = policy.Look{Pods: []policy.Evidence{pod("a", "host-name", false), {UID: "b"}}}
	if names = fillNames(&l, names); len(names) != 1 {
		t.Errorf("remembered %v", names)
	}
	if e := l.Pods[0]; e.PodName != "web-0" || e.Namespace != "shop" || !e.CertainName {
		t.Errorf("its name is %s/%s", e.Namespace, e.PodName)
	}
	if e := l.Pods[1]; e.PodName != "" || e.CertainName {
		t.Errorf("a pod that nobody named is called %s", e.PodName)
	}
}
