package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestKeptPodsSaved checks that the saved list of kept pods is that of the last look, for "report": a pod that has
// disappeared is not in it.
func TestKeptPodsSaved(t *testing.T) {
	n := newFakeNode()
	n.add(1, map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes})
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	if saved, _ := n.files["holds"].(memory); len(saved.Recorded) != 1 || saved.Looked != n.now {
		t.Errorf("kept: recorded %v at %v, now %v", saved.Recorded, saved.Looked, n.now)
	}
	delete(n.pods, uidOf(1))
	n.pass(time.Hour)
	mustPass(t, r)
	if saved, _ := n.files["holds"].(memory); len(saved.Recorded) != 0 || saved.Looked != n.now {
		t.Errorf("gone: recorded %v at %v, now %v", saved.Recorded, saved.Looked, n.now)
	}
}
