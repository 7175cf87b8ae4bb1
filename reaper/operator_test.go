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

// heldNode is a node with one confirmed pod in quarantine that holds a user's data.
func heldNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n := newFakeNode()
	n.add(1, nil).data = true
	rules := atOnce()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	if len(n.quarantine) != 1 {
		t.Fatal("the pod is not in quarantine")
	}
	return n, rules
}

// TestSameCommandAgain kills "restore" and "purge" before each step and runs the same command again: it succeeds and
// the result is complete. A pass may also finish a purge.
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
				t.Errorf("%s, second run after a kill at step %d: %+v, %v", name, cut, outs, err)
			}
			if back := n.pods[uidOf(1)] != nil; len(n.quarantine) != 0 || back != (name == "restore") {
				t.Errorf("%s, second run after a kill at step %d: quarantine %v, back %t", name, cut, n.quarantine, back)
			}
		}
	}
}

// TestPassFinishesPurge checks that the next pass finishes a purge that was killed, user's data included: the
// operator asked for it and its intent is in the ledger.
func TestPassFinishesPurge(t *testing.T) {
	n, rules := heldNode(t)
	n.cutAt = n.steps + 2 // the intent is written, and nothing is removed
	if !killed(func() { _, _ = purge(t, n.reaper(t, rules), n.shown(1), false) }) {
		t.Fatal("the purge was not cut off")
	}
	n.cutAt = 0
	if n.Entries()[n.records[0].Entry].Phase != policy.PhasePurging || len(n.quarantine) != 1 {
		t.Fatal("the purge was not killed between intent and removal")
	}
	mustPass(t, n.reaper(t, rules))
	if len(n.quarantine) != 0 {
		t.Error("the purge was not finished")
	}
}

// TestPurgeOnlyWhatWasShown checks that "purge" removes only entries that the operator saw when agreeing: the list is
// made without the lock. What has arrived, changed places or proved alive since is kept, with all of its pod.
func TestPurgeOnlyWhatWasShown(t *testing.T) {
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
			t.Errorf("%s: %+v, %v, quarantine %v", name, outs, err, n.quarantine)
		}
		// Shown again, it is removed: only the guard has kept it.
		if outs, err := purge(t, n.reaper(t, rules), n.shown(1), true); err != nil || len(outs) != there || len(n.quarantine) != 0 {
			t.Errorf("%s, shown again: %+v, %v, quarantine %v", name, outs, err, n.quarantine)
		}
	}
	// A restore would put back another entry than the one shown.
	n := newFakeNode()
	n.quarantine[string(uidOf(1))+".1"] = &fakePod{data: true, files: 1}
	shown := n.shown(1)
	come(n)
	if o, err := n.reaper(t, testRules).Restore(t.Context(), uidOf(1), shown); !errors.Is(err, ErrChanged) || len(n.pods) != 0 || len(n.quarantine) != 2 {
		t.Errorf("restore of an entry that was not shown: %+v, %v", o, err)
	}
	if o, err := n.reaper(t, testRules).Restore(t.Context(), uidOf(1), n.shown(1)); err != nil || o.Action.Entry != younger {
		t.Errorf("restore shown again: %+v, %v", o, err)
	}
	// Fewer entries than were shown are no obstacle: another command may have been faster.
	n, rules := heldNode(t)
	come(n)
	shown = n.shown(1)
	delete(n.quarantine, younger)
	if outs, err := purge(t, n.reaper(t, rules), shown, false); err != nil || len(outs) != 1 || len(n.quarantine) != 0 {
		t.Errorf("fewer than shown: %+v, %v, quarantine %v", outs, err, n.quarantine)
	}
}

// restoredNode is a node with a pod that an operator has put back and that stays dead, and its earlier log line.
func restoredNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n := newFakeNode()
	n.add(1, nil).data = true
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	n.pass(testRules.Hold)
	mustPass(t, r)
	if len(n.quarantine) != 1 {
		t.Fatal("the pod is not in quarantine")
	}
	if _, err := r.Restore(t.Context(), uidOf(1), n.shown(1)); err != nil || n.pods[uidOf(1)] == nil {
		t.Fatalf("the pod was not restored: %v", err)
	}
	return n, testRules
}

// TestForget checks that a restored pod is kept until the operator forgets the restore, and then for a whole hold:
// the time before does not count.
func TestForget(t *testing.T) {
	n, rules := restoredNode(t)
	r := n.reaper(t, rules)
	for range 3 {
		n.pass(10 * rules.Hold)
		mustPass(t, r, n.claim(1))
	}
	if n.pods[uidOf(1)] == nil {
		t.Fatal("a restored pod was parked")
	}
	done, err := n.reaper(t, rules).Forget(t.Context(), []parsers.PodUID{uidOf(2), uidOf(1), uidOf(1)})
	if err != nil || !slices.Equal(done, []parsers.PodUID{uidOf(1)}) || n.pods[uidOf(1)] == nil {
		t.Fatalf("forget returned %v, %v", done, err)
	}
	if got := n.logged[len(n.logged)-1]; got.Kind != policy.KindForgotten || got.UID != uidOf(1) {
		t.Errorf("last record %+v", got)
	}
	mustPass(t, r, n.claim(1))
	n.pass(rules.Hold - 1)
	mustPass(t, r, n.claim(1))
	if n.pods[uidOf(1)] == nil {
		t.Fatal("parked without a hold of its own")
	}
	n.pass(1)
	mustPass(t, r, n.claim(1))
	if n.pods[uidOf(1)] != nil || len(n.quarantine) != 1 {
		t.Errorf("not parked after its hold: %v", n.kinds(uidOf(1)))
	}
	// The present entry in quarantine was not restored.
	if done, err := n.reaper(t, rules).Forget(t.Context(), []parsers.PodUID{uidOf(1)}); err != nil || len(done) != 0 || len(n.quarantine) != 1 {
		t.Errorf("second forget: %v, %v, %v", done, err, n.quarantine)
	}
}

// TestForgetKilled kills "forget" before each step, or fills the disk: the same command again succeeds, and the
// record is logged once.
func TestForgetKilled(t *testing.T) {
	only := []parsers.PodUID{uidOf(1)}
	for cut := 1; ; cut++ {
		n, rules := restoredNode(t)
		n.cutAt = n.steps + cut
		if !killed(func() { _, _ = n.reaper(t, rules).Forget(t.Context(), only) }) {
			if cut < 2 {
				t.Fatal("forget has no step")
			}
			break
		}
		n.cutAt = 0
		if done, err := n.reaper(t, rules).Forget(t.Context(), only); err != nil || !slices.Equal(done, only) {
			t.Errorf("second run after a kill at step %d: %v, %v", cut, done, err)
		}
	}
	n, rules := restoredNode(t)
	n.ledgerErr = errFull
	if done, err := n.reaper(t, rules).Forget(t.Context(), only); !errors.Is(err, errFull) || len(done) != 0 {
		t.Errorf("with a full disk: %v, %v", done, err)
	}
	n.ledgerErr = nil
	// The process was killed after the ledger and before the log: the next command logs the record.
	if _, err := n.Append(policy.Record{Kind: policy.KindForgotten, UID: uidOf(1), Entry: n.records[0].Entry, At: n.now}); err != nil {
		t.Fatal(err)
	}
	if done, err := n.reaper(t, rules).Forget(t.Context(), only); err != nil || len(done) != 0 {
		t.Errorf("after the record was written: %v, %v", done, err)
	}
	logged := 0
	for _, rec := range n.logged {
		if rec.Kind == policy.KindForgotten {
			logged++
		}
	}
	if logged != 1 {
		t.Errorf("logged %d times", logged)
	}
}

// TestCommandBesideItself checks that the second of two equal concurrent commands returns its own error for finding
// nothing.
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

// TestPurgeMany checks that a purge of many pods takes one look, and that a pod that must be kept keeps no other.
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
