package decide

import (
	"maps"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestFillNames: a name is remembered for as long as the pod has a directory or lies in quarantine, and only where it
// is the pod's own.
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
	l.Parked, l.Pods = l.Pods[:1], nil // it goes back later, when neither the runtime nor a log directory has its name
	if names = fillNames(&l, names); len(names) != 1 {
		t.Errorf("remembered %v of a parked pod", names)
	}
	l = policy.Look{Pods: []policy.Evidence{{UID: "a"}, {UID: "b"}}}
	if fillNames(&l, names); l.Pods[0].PodName != "web-0" {
		t.Errorf("put back, its name is %s", l.Pods[0].PodName)
	}
	if e := l.Pods[1]; e.PodName != "" || e.CertainName {
		t.Errorf("a pod that nobody named is called %s", e.PodName)
	}
}

// TestRememberStatic: a pod whose manifest one look has seen is a static one in the next, also in quarantine: one that
// waits for a volume has no sandbox that would show it.
func TestRememberStatic(t *testing.T) {
	p := newPlay()
	e := testkit.DeadPod().Pod
	e.Facts[policy.FactStaticPod].Truth = policy.Yes
	d := Decide(Case{Look: policy.Look{At: p.Now, Node: p.Node, Pods: []policy.Evidence{e}}, Rules: p.Rules})
	parked := testkit.DeadPod().Pod
	parked.Entry = "entry"
	look := policy.Look{At: p.Now, Node: p.Node, Parked: []policy.Evidence{parked}}
	entries := map[string]*policy.EntryState{"entry": {Entry: "entry", UID: e.UID, Phase: policy.PhaseParked}}
	if d = Decide(Case{Look: look, Memory: d.Memory, Entries: entries, Rules: p.Rules}); !d.Look.Parked[0].Static || !d.Memory.Static[e.UID] {
		t.Error("its manifest was seen a look before, and it is no static pod")
	}
	look.Parked[0].Facts[policy.FactStaticPod].Truth = policy.Yes
	if d = Decide(Case{Look: look, Entries: entries, Rules: p.Rules}); !d.Look.Parked[0].Static {
		t.Error("its manifest is seen now, and it is no static pod")
	}
}
