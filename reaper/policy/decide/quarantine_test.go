package decide

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSameQuarantine: with entries that the ledger knows, a quarantine is the same one only where
// something shows it; and where nothing was written down, an older program has filled it.
func TestSameQuarantine(t *testing.T) {
	for name, c := range map[string]struct {
		q    Quarantine
		want bool
	}{
		"nothing in it":                        {Quarantine{Remembered: true, Path: policy.No, Dir: policy.No, Found: policy.No}, true},
		"an older program's":                   {Quarantine{Known: 1, Path: policy.No, Dir: policy.No, Found: policy.No}, true},
		"its path":                             {Quarantine{Known: 1, Remembered: true, Path: policy.Yes}, true},
		"another path":                         {Quarantine{Known: 1, Remembered: true, Path: policy.No, Dir: policy.Yes, Found: policy.Yes}, false},
		"its directory":                        {Quarantine{Known: 1, Remembered: true, Dir: policy.Yes}, true},
		"another directory, an entry is there": {Quarantine{Known: 1, Remembered: true, Dir: policy.No, Found: policy.Yes}, true},
		"another directory, empty":             {Quarantine{Known: 1, Remembered: true, Dir: policy.No, Found: policy.No}, false},
		"nothing is known":                     {Quarantine{Known: 1, Remembered: true}, false},
	} {
		if got := c.q.Same(); got != c.want {
			t.Errorf("%s: same %t", name, got)
		}
	}
}

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
