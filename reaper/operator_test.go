package reaper

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// heldNode is a node with one confirmed pod in quarantine that holds data.
func heldNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n := newFakeNode()
	n.add(1, nil).data = true
	rules := atOnce()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	if len(n.quarantine) != 1 {
		t.Fatal("not in quarantine")
	}
	return n, rules
}

// TestSameCommandAgain kills restore and purge before each of their steps, and gives the same
// command again: it ends well, and the goal is reached. A purge may also be finished by a pass.
func TestSameCommandAgain(t *testing.T) {
	commands := map[string]func(r *Reaper, shown []policy.EntryState) ([]policy.Outcome, error){
		"restore": func(r *Reaper, shown []policy.EntryState) ([]policy.Outcome, error) {
			o, err := r.Restore(t.Context(), uidOf(1), shown)
			return []policy.Outcome{o}, err
		},
		"purge": func(r *Reaper, shown []policy.EntryState) ([]policy.Outcome, error) {
			return purge(t, r, shown, false)
		},
	}
	for name, command := range commands {
		for cut := 1; ; cut++ {
			n, rules := heldNode(t)
			n.cutAt = n.steps + cut
			if !killed(func() { _, _ = command(n.reaper(t, rules), n.shown(1)) }) {
				if cut < 3 {
					t.Fatalf("%s has only %d steps", name, cut)
				}
				break
			}
			n.cutAt = 0
			outs, err := command(n.reaper(t, rules), n.shown(1))
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
	if !killed(func() { _, _ = purge(t, n.reaper(t, rules), n.shown(1), false) }) {
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

// TestPersonMeansWhatWasShown: a person says yes to a list that was made without the lock. What has
// come, changed places or turned out to live since is not purged, and nothing else of the pod is.
func TestPersonMeansWhatWasShown(t *testing.T) {
	younger := string(uidOf(1)) + ".2"
	come := func(n *fakeNode) { n.quarantine[younger] = &fakePod{data: true, files: 1} }
	write := func(n *fakeNode, kind policy.Kind, id policy.DirID) {
		e := n.shown(1)[0]
		if _, err := n.Append(policy.Record{Kind: kind, UID: e.UID, Entry: e.Entry, ID: id, At: n.now}); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(n *fakeNode){
		" has come since": come,
		" is another directory by now": func(n *fakeNode) {
			other := policy.DirID{Dev: 1, Ino: 4711, Btime: 1}
			n.quarantine[n.shown(1)[0].Entry].id = other
			for _, kind := range []policy.Kind{policy.KindParking, policy.KindParked, policy.KindStripped} {
				write(n, kind, other)
			}
		},
		" is no longer confirmed dead (conflict)": func(n *fakeNode) { write(n, policy.KindConflict, n.shown(1)[0].ID) },
	} {
		n, rules := heldNode(t)
		shown := n.shown(1)
		change(n)
		there := len(n.quarantine)
		outs, err := purge(t, n.reaper(t, rules), shown, true)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), name) || len(outs) != 0 || len(n.quarantine) != there {
			t.Errorf("%s: %+v, %v, left %v", name, outs, err, n.quarantine)
		}
		// Shown anew, it goes: the guard alone has kept it.
		if outs, err := purge(t, n.reaper(t, rules), n.shown(1), true); err != nil || len(outs) != there || len(n.quarantine) != 0 {
			t.Errorf("%s, shown anew: %+v, %v, left %v", name, outs, err, n.quarantine)
		}
	}
	// What a restore would put back is another entry than the person saw.
	n := newFakeNode()
	n.quarantine[string(uidOf(1))+".1"] = &fakePod{data: true, files: 1}
	shown := n.shown(1)
	come(n)
	if o, err := n.reaper(t, testRules).Restore(t.Context(), uidOf(1), shown); !errors.Is(err, ErrChanged) || len(n.pods) != 0 || len(n.quarantine) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := n.reaper(t, testRules).Restore(t.Context(), uidOf(1), n.shown(1)); err != nil || o.Action.Entry != younger {
		t.Errorf("shown anew: %+v, %v", o, err)
	}
	// Less than was shown is no matter: somebody was faster.
	n, rules := heldNode(t)
	come(n)
	shown = n.shown(1)
	delete(n.quarantine, younger)
	if outs, err := purge(t, n.reaper(t, rules), shown, false); err != nil || len(outs) != 1 || len(n.quarantine) != 0 {
		t.Errorf("less: %+v, %v, left %v", outs, err, n.quarantine)
	}
}

// restoredNode is a node with a pod that a person has put back and that stays dead, and what it
// said before of it.
func restoredNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n := newFakeNode()
	n.add(1, nil).data = true
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	n.pass(testRules.Hold)
	mustPass(t, r)
	if len(n.quarantine) != 1 {
		t.Fatal("not in quarantine")
	}
	if _, err := r.Restore(t.Context(), uidOf(1), n.shown(1)); err != nil || n.pods[uidOf(1)] == nil {
		t.Fatalf("not restored: %v", err)
	}
	return n, testRules
}

// TestForget: a pod that was put back is kept for as long as nobody takes that back, and then for a
// whole hold: what was dead all the while before counts for nothing.
func TestForget(t *testing.T) {
	n, rules := restoredNode(t)
	r := n.reaper(t, rules)
	for range 3 {
		n.pass(10 * rules.Hold)
		mustPass(t, r, n.claim(1))
	}
	if n.pods[uidOf(1)] == nil {
		t.Fatal("a restored pod was taken")
	}
	done, err := n.reaper(t, rules).Forget(t.Context(), []parsers.PodUID{uidOf(2), uidOf(1), uidOf(1)})
	if err != nil || !slices.Equal(done, []parsers.PodUID{uidOf(1)}) || n.pods[uidOf(1)] == nil {
		t.Fatalf("forgot %v, %v", done, err)
	}
	if got := n.told[len(n.told)-1]; got.Kind != policy.KindForgotten || got.UID != uidOf(1) {
		t.Errorf("told %+v", got)
	}
	mustPass(t, r, n.claim(1))
	n.pass(rules.Hold - 1)
	mustPass(t, r, n.claim(1))
	if n.pods[uidOf(1)] == nil {
		t.Fatal("taken without a hold of its own")
	}
	n.pass(1)
	mustPass(t, r, n.claim(1))
	if n.pods[uidOf(1)] != nil || len(n.quarantine) != 1 {
		t.Errorf("not taken after its hold: %v", n.kinds(uidOf(1)))
	}
	// What is in quarantine now was restored by nobody.
	if done, err := n.reaper(t, rules).Forget(t.Context(), []parsers.PodUID{uidOf(1)}); err != nil || len(done) != 0 || len(n.quarantine) != 1 {
		t.Errorf("again: %v, %v, %v", done, err, n.quarantine)
	}
}

// TestForgetKilled: killed before each step, or with a disk that is full, the same command again ends
// well, and people are told once.
func TestForgetKilled(t *testing.T) {
	only := []parsers.PodUID{uidOf(1)}
	for cut := 1; ; cut++ {
		n, rules := restoredNode(t)
		n.cutAt = n.steps + cut
		if !killed(func() { _, _ = n.reaper(t, rules).Forget(t.Context(), only) }) {
			if cut < 2 {
				t.Fatal("it has no step")
			}
			break
		}
		n.cutAt = 0
		if done, err := n.reaper(t, rules).Forget(t.Context(), only); err != nil || !slices.Equal(done, only) {
			t.Errorf("killed at step %d, again: %v, %v", cut, done, err)
		}
	}
	n, rules := restoredNode(t)
	n.ledgerErr = errFull
	if done, err := n.reaper(t, rules).Forget(t.Context(), only); !errors.Is(err, errFull) || len(done) != 0 {
		t.Errorf("with a full disk: %v, %v", done, err)
	}
	n.ledgerErr = nil
	// Written down, and killed before people were told: the next who comes tells them.
	if _, err := n.Append(policy.Record{Kind: policy.KindForgotten, UID: uidOf(1), Entry: n.records[0].Entry, At: n.now}); err != nil {
		t.Fatal(err)
	}
	if done, err := n.reaper(t, rules).Forget(t.Context(), only); err != nil || len(done) != 0 {
		t.Errorf("after it was written down: %v, %v", done, err)
	}
	told := 0
	for _, rec := range n.told {
		if rec.Kind == policy.KindForgotten {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// TestCommandBesideItself: of two same commands at once the second finds nothing, which is its own error.
func TestCommandBesideItself(t *testing.T) {
	n, rules := heldNode(t)
	shown := n.shown(1)
	if _, err := n.reaper(t, rules).Restore(t.Context(), uidOf(1), shown); err != nil {
		t.Fatal(err)
	}
	if _, err := n.reaper(t, rules).Restore(t.Context(), uidOf(1), shown); !errors.Is(err, ErrNotThere) {
		t.Errorf("restore: %v", err)
	}
	if _, err := purge(t, n.reaper(t, rules), shown, false); !errors.Is(err, ErrNotThere) || len(n.pods) != 1 {
		t.Errorf("purge: %v", err)
	}
}

// TestPurgeMany: a purge of many pods takes one look. What keeps one of them keeps no other.
func TestPurgeMany(t *testing.T) {
	n := newFakeNode()
	uids := []parsers.PodUID{uidOf(1), uidOf(2), uidOf(3), uidOf(4)}
	var shown []policy.EntryState
	for i := range 3 {
		n.add(i+1, nil).data = true
	}
	mustPass(t, n.reaper(t, atOnce()), n.claim(1), n.claim(2), n.claim(3))
	for range 3 {
		n.pass(time.Minute)
		mustPass(t, n.reaper(t, atOnce()))
	}
	for i := range 3 {
		shown = append(shown, n.shown(i+1)...)
	}
	n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(2): {policy.FactSandbox: policy.Yes}}
	looks := n.looks
	outs, failed, err := n.reaper(t, atOnce()).PurgeEntries(t.Context(), uids, shown, false)
	if err != nil || len(outs) != 2 || len(n.quarantine) != 1 || n.looks != looks+1 {
		t.Errorf("%d outcomes, %d in quarantine, %d looks: %v", len(outs), len(n.quarantine), n.looks-looks, err)
	}
	if !errors.Is(failed[uidOf(2)], ErrLives) || !errors.Is(failed[uidOf(4)], ErrNotThere) || len(failed) != 2 {
		t.Errorf("failed: %v", failed)
	}
}
