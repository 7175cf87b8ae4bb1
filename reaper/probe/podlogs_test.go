package probe

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// TestPodLogsCleaned: where a pod of the kubelet's runs and has no log directory, somebody removes
// them, and that another has none says nothing; unless that one never ran.
func TestPodLogsCleaned(t *testing.T) {
	ran, never, runs := newUID(), newUID(), newUID()
	content := func(rows ...policy.Residue) *policy.Evidence {
		e := &policy.Evidence{Residue: rows}
		e.Facts.Set(policy.FactContent, policy.Yes, "", "")
		return e
	}
	logs := &reading.PodLogs{Dir: "/var/log/pods", Pods: map[parsers.PodUID]bool{runs: true}}
	check := func(step string, e *policy.Evidence, uid parsers.PodUID, want policy.Truth) {
		t.Helper()
		e.UID = uid
		if f := logs.Fact(e, logs.Logless([]parsers.PodUID{runs})); f.Truth != want {
			t.Errorf("%s: %s (%s), want %s", step, f.Truth, f.Detail, want)
		}
	}
	hosts := policy.Residue{Path: "etc-hosts"}
	check("those of pods that run are there", content(hosts), ran, policy.No)
	delete(logs.Pods, runs)
	check("one is missing", content(hosts), ran, policy.Unknown)
	check("one is missing, after containers", content(policy.Residue{Path: "containers/app"}), ran, policy.Unknown)
	check("one is missing, and this never ran", content(policy.Residue{Path: "volumes"}), never, policy.No)
	check("one is missing, and what lies here is not known", &policy.Evidence{}, never, policy.Unknown)
}
