package decide

import (
	"maps"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNames checks that a pod's name is saved while the pod has a directory or an entry in quarantine, and only a
// name that is certainly the pod's.
func TestNames(t *testing.T) {
	pod := func(uid, name string, certain bool) policy.Evidence {
		return policy.Evidence{UID: parsers.PodUID(uid), Namespace: "shop", PodName: name, CertainName: certain}
	}
	d := Ruling{Memory: Memory{Names: map[parsers.PodUID]policy.PodName{"c": {Namespace: "shop", Name: "gone"}}}}
	look := func(l policy.Look) {
		d = Decide(Case{Look: l, Memory: d.Memory})
	}
	look(policy.Look{Pods: []policy.Evidence{pod("a", "web-0", true), pod("b", "host-name", false), pod("", "", false)}})
	if want := (map[parsers.PodUID]policy.PodName{"a": {Namespace: "shop", Name: "web-0"}}); !maps.Equal(d.Memory.Names, want) {
		t.Errorf("saved names %v, want %v", d.Memory.Names, want)
	}
	look(policy.Look{Pods: []policy.Evidence{pod("a", "host-name", false), {UID: "b"}}})
	if e := &d.Pods[0]; e.PodName != "web-0" || e.Namespace != "shop" || !e.CertainName || len(d.Memory.Names) != 1 {
		t.Errorf("the pod's name is %s/%s, saved names %v", e.Namespace, e.PodName, d.Memory.Names)
	}
	// The pod goes back after its sandbox and its log directory, which showed the name, are gone.
	if look(policy.Look{Parked: []policy.Evidence{pod("a", "host-name", false)}}); len(d.Memory.Names) != 1 {
		t.Errorf("saved names %v with a parked pod", d.Memory.Names)
	}
	look(policy.Look{Pods: []policy.Evidence{{UID: "a"}, {UID: "b"}}})
	if d.Pods[0].PodName != "web-0" {
		t.Errorf("the name after the put-back is %s", d.Pods[0].PodName)
	}
	if e := &d.Pods[1]; e.PodName != "" || e.CertainName {
		t.Errorf("a pod without a name has the name %s", e.PodName)
	}
}

// TestRememberedNameOfStaticPod checks that a dead static pod beside another static pod's manifest is removed after
// its sandbox and log directory have gone, because an earlier look saved its name.
func TestRememberedNameOfStaticPod(t *testing.T) {
	const uid = parsers.PodUID("4d145df0c0ffee00decafbad4d145df0")
	p := newPlay()
	p.Pod.UID, p.Pod.Name = uid, string(uid)
	manifests := &policy.StaticPods{Node: "node", Manifests: []policy.Manifest{{File: "etcd.yaml", Namespace: "kube-system", Name: "etcd"}}}
	for name, tc := range map[string]struct {
		remembered map[parsers.PodUID]policy.PodName
		want       policy.Decision
	}{
		"no name is known":    {nil, policy.Keep},
		"another pod's name":  {map[parsers.PodUID]policy.PodName{uid: {Namespace: "kube-system", Name: "web-node"}}, policy.Reap},
		"the manifest's name": {map[parsers.PodUID]policy.PodName{uid: {Namespace: "kube-system", Name: "etcd-node"}}, policy.Keep},
	} {
		e := p.Pod
		e.Facts[policy.FactStaticPod] = manifests.Fact(&e, nil) // as the probe sets it without the name
		look := policy.Look{At: p.Now, Node: p.Node, Pods: []policy.Evidence{e}, Manifests: manifests}
		m := Memory{Holds: map[parsers.PodUID]policy.Hold{uid: p.Hold}, Names: tc.remembered}
		m.Log = reported.Log{Kubelet: p.Node.KubeletID, BootID: p.Now.BootID, Named: map[parsers.PodUID]policy.Instant{uid: p.Now}}
		if v := Decide(Case{Look: look, Memory: m, Rules: p.Rules}).Pods[0]; v.Decision != tc.want || v.For(policy.ReasonStaticPod) != (tc.want == policy.Keep) {
			t.Errorf("%s: %s %v, want %s", name, v.Decision, v.Why, tc.want)
		}
	}
}

// TestRememberStatic checks that a pod whose manifest one look has seen counts as static in the next, also in
// quarantine: a pod that waits for a volume has no sandbox that would show it.
func TestRememberStatic(t *testing.T) {
	p := newPlay()
	e := testkit.DeadPod().Pod
	e.Facts[policy.FactStaticPod].Truth = policy.Yes
	d := Decide(Case{Look: policy.Look{At: p.Now, Node: p.Node, Pods: []policy.Evidence{e}}, Rules: p.Rules})
	parked := testkit.DeadPod().Pod
	parked.Entry = "entry"
	look := policy.Look{At: p.Now, Node: p.Node, Parked: []policy.Evidence{parked}}
	entries := map[string]*policy.EntryState{"entry": {Entry: "entry", UID: e.UID, Phase: policy.PhaseParked}}
	if d = Decide(Case{Look: look, Memory: d.Memory, Entries: entries, Rules: p.Rules}); !d.Pods[0].Static || !d.Memory.Static[e.UID] {
		t.Error("the pod whose manifest an earlier look saw is not static")
	}
	look.Parked[0].Facts[policy.FactStaticPod].Truth = policy.Yes
	if d = Decide(Case{Look: look, Entries: entries, Rules: p.Rules}); !d.Pods[0].Static {
		t.Error("the pod whose manifest is seen now is not static")
	}
}
