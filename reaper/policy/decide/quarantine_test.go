package decide

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHalfRemovedHoldsUpNobody: an entry whose removal was cut short was confirmed before. That something about it is not
// known, for days maybe, keeps no other pod from going.
func TestHalfRemovedHoldsUpNobody(t *testing.T) {
	for phase, want := range map[policy.Phase]int{policy.PhaseStripping: 1, policy.PhaseParked: 0} {
		p := newPlay()
		p.do(t, "pods 1")
		p.Hold.ID = p.pods["1"].ID
		half := testkit.DeadPod().Pod
		half.UID, half.Entry = uidOf("2"), "entry"
		half.Facts[policy.FactKubeletFile].Truth = policy.Unknown
		entries := map[string]*policy.EntryState{"entry": {Entry: "entry", UID: half.UID, ID: half.ID, Phase: phase, Parked: policy.Parked{At: p.Ago(time.Hour), Kubelet: p.Node.KubeletID}}}
		memory := Memory{Holds: map[parsers.PodUID]policy.Hold{uidOf("1"): p.Hold}}
		memory.Log = reported.Log{Kubelet: p.Node.KubeletID, BootID: p.Now.BootID, Named: map[parsers.PodUID]bool{uidOf("1"): true}}
		look := policy.Look{At: p.Now, Node: p.Node, Pods: []policy.Evidence{*p.pods["1"]}, Parked: []policy.Evidence{half}}
		d := Decide(Case{Look: look, Memory: memory, Entries: entries, Rules: p.Rules})
		if got := len(d.Plan.Moves); got != want {
			t.Errorf("%s: %d pods are parked, want %d; verdict %+v, of the entry %+v", phase, got, want, d.Pods[0].Verdict, d.Pods[1].Verdict)
		}
	}
}
