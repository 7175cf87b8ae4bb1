package summary

import (
	"maps"
	"slices"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// orphan is a dead pod that the kubelet reports.
func orphan() policy.Evidence { return testkit.DeadPod().Pod }

func TestInventory(t *testing.T) {
	dead, living, static, named, forgotten := orphan(), orphan(), orphan(), orphan(), orphan()
	dead.Facts[policy.FactNamed].Truth = policy.No
	living.Facts[policy.FactNamed].Truth, living.Facts[policy.FactSandbox].Truth, living.Facts[policy.FactCgroup].Truth = policy.No, policy.Yes, policy.Yes
	living.Sandboxes = []policy.Sandbox{{Ready: true}}
	static.Facts[policy.FactNamed].Truth, static.Facts[policy.FactStaticPod].Truth = policy.No, policy.Yes
	forgotten.Facts[policy.FactSandbox].Truth, forgotten.Facts[policy.FactContainer].Truth = policy.Yes, policy.Yes
	forgotten.Sandboxes = []policy.Sandbox{{}}
	forgotten.RuntimeOnly, forgotten.Unwanted = true, "the list has it not"
	working := []policy.WorkingPods{{Lifecycle: "terminating", Config: "orphan", Count: 1}, {Lifecycle: "terminated", Config: "desired", Count: 9}}
	whole := policy.Look{
		InRuntime: new(2), KubeletLists: new(7), Node: policy.Node{Gauges: policy.KubeletGauges{Working: working}},
	}
	all := Counts{
		OnDisk: 4, InRuntime: 2, KnownToKubelet: 7, OrphanedOnDisk: 1, OrphanedInRuntime: 1, Terminating: 1, Static: 1,
	}
	here := func(e policy.Evidence) policy.Judged { return policy.Judged{Evidence: e} }
	pods := []policy.Judged{here(dead), here(living), here(static), here(named), here(policy.Evidence{Name: "lost+found"}), here(forgotten)}
	pods[5].Stage = policy.InRuntime
	if got := CountPods(&whole, pods); !maps.Equal(got, all) {
		t.Errorf("%v, want %v", got, all)
	}
	if len(all) != len(States()) {
		t.Errorf("%d states", len(States()))
	}
	for name, c := range map[string]struct {
		change  func(*policy.Look, []policy.Judged)
		unknown []State
	}{
		"runtime":      {func(l *policy.Look, _ []policy.Judged) { l.InRuntime = nil }, []State{InRuntime, OrphanedInRuntime}},
		"kubelet":      {func(l *policy.Look, _ []policy.Judged) { l.KubeletLists, l.Node.Gauges = nil, policy.KubeletGauges{} }, []State{KnownToKubelet, Terminating}},
		"one cgroup":   {func(_ *policy.Look, pods []policy.Judged) { pods[3].Facts[policy.FactCgroup].Truth = policy.Unknown }, []State{OrphanedOnDisk}},
		"one manifest": {func(_ *policy.Look, pods []policy.Judged) { pods[0].Facts[policy.FactStaticPod].Truth = policy.Unknown }, []State{Static}},
		// A forged line reports a living pod: the count does not change.
		"named and living": {func(_ *policy.Look, pods []policy.Judged) { pods[1].Facts[policy.FactNamed].Truth = policy.Yes }, nil},
		"named, with cgroup": {func(_ *policy.Look, pods []policy.Judged) {
			pods[0], pods[1] = pods[1], pods[0]
			pods[0].Facts[policy.FactNamed].Truth, pods[0].Facts[policy.FactSandbox].Truth = policy.Yes, policy.No
		}, nil},
		"named, no runtime": {func(_ *policy.Look, pods []policy.Judged) { pods[3].Facts[policy.FactSandbox].Truth = policy.Unknown }, []State{OrphanedOnDisk}},
		"some pods":         {func(l *policy.Look, _ []policy.Judged) { l.Partial = true }, States()},
	} {
		l, pods := whole, slices.Clone(pods)
		c.change(&l, pods)
		want := maps.Clone(all)
		for _, s := range c.unknown {
			delete(want, s)
		}
		if got := CountPods(&l, pods); !maps.Equal(got, want) {
			t.Errorf("%s unknown: %v, want %v", name, got, want)
		}
	}
}
