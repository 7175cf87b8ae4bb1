package reaper

import (
	"errors"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// heldNode is a node with one confirmed pod in quarantine that holds data.
func heldNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n := newFakeNode()
	n.add(1, nil).data = true
	rules := testRules
	rules.Hold, rules.Confirm = 0, 0
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	if len(n.quarantine) != 1 {
		t.Fatal("not in quarantine")
	}
	return n, rules
}

// cutShort runs f and reports whether it was cut off.
func cutShort(f func()) (cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCut) {
				panic(r)
			}
			cut = true
		}
	}()
	f()
	return false
}

// TestSameCommandAgain kills restore and purge before each of their steps, and gives the same
// command again: it ends well, and the goal is reached. A purge may also be finished by a pass.
func TestSameCommandAgain(t *testing.T) {
	commands := map[string]func(r *Reaper) ([]policy.Outcome, error){
		"restore": func(r *Reaper) ([]policy.Outcome, error) {
			o, err := r.Restore(t.Context(), uidOf(1))
			return []policy.Outcome{o}, err
		},
		"purge": func(r *Reaper) ([]policy.Outcome, error) { return r.PurgeEntries(t.Context(), uidOf(1), false) },
	}
	for name, command := range commands {
		for cut := 1; ; cut++ {
			n, rules := heldNode(t)
			n.cutAt = n.steps + cut
			if !cutShort(func() { _, _ = command(n.reaper(t, rules)) }) {
				if cut < 3 {
					t.Fatalf("%s has only %d steps", name, cut)
				}
				break
			}
			n.cutAt = 0
			outs, err := command(n.reaper(t, rules))
			if err != nil || len(outs) != 1 || outs[0].Result != policy.Done && outs[0].Result != policy.Gone {
				t.Errorf("%s, killed at step %d, again: %+v, %v", name, cut, outs, err)
			}
			if back := n.pods[uidOf(1)] != nil; len(n.quarantine) != 0 || back != (name == "restore") {
				t.Errorf("%s, killed at step %d, again: quarantine %v, back %t", name, cut, n.quarantine, back)
			}
		}
	}
}

// TestPassFinishesPurge: a purge that a person asked for and that was killed is finished by
// the next pass, data and all.
func TestPassFinishesPurge(t *testing.T) {
	n, rules := heldNode(t)
	n.cutAt = n.steps + 2 // the intent is written, and nothing is removed
	if !cutShort(func() { _, _ = n.reaper(t, rules).PurgeEntries(t.Context(), uidOf(1), false) }) {
		t.Fatal("not cut off")
	}
	n.cutAt = 0
	if n.Entries()[n.records[0].Entry].Phase != policy.PhasePurging || len(n.quarantine) != 1 {
		t.Fatal("it was not killed between intent and removal")
	}
	mustPass(t, n.reaper(t, rules))
	if len(n.quarantine) != 0 {
		t.Error("the purge was not finished")
	}
}
