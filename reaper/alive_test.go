package reaper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// signs of life, of which each by itself is enough.
var signsOfLife = []policy.FactName{
	policy.FactSandbox, policy.FactContainer, policy.FactCgroup, policy.FactKubeletLists, policy.FactAPILists, policy.FactKubeletFile,
}

// TestLivesWhileHeld: a pod that lives again while its emptyDir waits for the end of its
// retention, or its data for a person, is told and frozen, and stops what judged it.
func TestLivesWhileHeld(t *testing.T) {
	for _, sign := range append(signsOfLife, policy.FactRemade) {
		for _, data := range []bool{false, true} {
			n := newFakeNode()
			rules := atOnce()
			p := n.add(1, nil)
			p.data, p.ephemeral = data, !data
			r := n.reaper(t, rules)
			mustPass(t, r, n.claim(1))
			mustPass(t, r)
			if len(n.quarantine) != 1 || n.BreakerOpen() {
				t.Fatal("it is not held")
			}
			if sign == policy.FactRemade {
				n.add(1, map[policy.FactName]policy.Truth{policy.FactStaged: policy.Yes}) // so that it stays
			} else {
				n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {sign: policy.Yes}}
			}
			n.pass(time.Hour)
			mustPass(t, r)
			for _, e := range n.Entries() {
				if e.Phase != policy.PhaseConflict {
					t.Errorf("%s, data %t: the ledger says %s", sign, data, e.Phase)
				}
			}
			if !n.BreakerOpen() || !slices.Contains(n.kinds(uidOf(1)), policy.KindConflict) {
				t.Errorf("%s, data %t: breaker %t, told %v", sign, data, n.BreakerOpen(), n.kinds(uidOf(1)))
			}
			resume(t, r)
			n.pass(1000 * time.Hour)
			mustPass(t, r)
			if len(n.quarantine) != 1 || n.BreakerOpen() {
				t.Errorf("%s, data %t: quarantine %v, breaker %t", sign, data, n.quarantine, n.BreakerOpen())
			}
			_, err := purge(t, r, n.shown(1), false)
			if !errors.Is(err, ErrLives) || !strings.Contains(err.Error(), "orphan-reaper explain") || len(n.quarantine) != 1 {
				t.Errorf("%s, data %t: purged what a living pod may miss: %v", sign, data, err)
			}
			if outs, err := purge(t, r, n.shown(1), true); err != nil || len(outs) != 1 || len(n.quarantine) != 0 {
				t.Errorf("%s, data %t: a person who knows could not purge it: %+v, %v", sign, data, outs, err)
			}
		}
	}
}

// TestLeafOfALivingPod: what was cleared of one leaf goes back where the pod shows a sign of life within the confirm time,
// also where the process was killed before it could ask after the move. Later it stays, and is told of. That the pod's
// directory is there says nothing: it was never away.
func TestLeafOfALivingPod(t *testing.T) {
	for _, late := range []bool{false, true} {
		n := newFakeNode()
		rules := noHold()
		p := n.add(1, nil)
		p.leaf = 2
		n.still = func() {
			if len(n.quarantine) > 0 {
				panic(errCut)
			}
		}
		if !passUntilCut(t, n, rules) {
			t.Fatal("it was not killed before the question")
		}
		n.still = nil
		r := n.reaper(t, rules)
		mustPass(t, r)
		if len(n.quarantine) != 1 || n.BreakerOpen() {
			t.Fatalf("quarantine %v, breaker %t, told %v", n.quarantine, n.BreakerOpen(), n.kinds(uidOf(1)))
		}
		if late {
			n.pass(rules.Confirm)
		}
		n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactSandbox: policy.Yes}}
		mustPass(t, r)
		if !n.BreakerOpen() || (p.leaf == 2) == late || (len(n.quarantine) == 0) == late {
			t.Errorf("late %t: breaker %t, %d of 2 in the leaf, quarantine %v", late, n.BreakerOpen(), p.leaf, n.quarantine)
		}
		for _, e := range n.Entries() {
			if late && e.Phase != policy.PhaseConflict {
				t.Errorf("it is %s", e.Phase)
			}
		}
	}
}

// TestRestoreBesideALivingPod: a person's restore moves nothing of a pod that has another
// directory in use, and says that the elder stays.
func TestRestoreBesideALivingPod(t *testing.T) {
	n := newFakeNode()
	rules := atOnce()
	elder := n.add(1, nil)
	elder.data = true
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	living := n.add(1, nil)
	living.used = policy.Yes
	o, err := r.Restore(context.Background(), uidOf(1), n.shown(1))
	if err != nil || o.Result != policy.Refused || o.Conflict != o.Action.Entry {
		t.Fatalf("%+v, %v", o, err)
	}
	if n.pods[uidOf(1)] != living || n.quarantine[o.Action.Entry] != elder || n.Entries()[o.Action.Entry].Phase != policy.PhaseConflict {
		t.Fatal("moved, or not told")
	}
	delete(n.pods, uidOf(1)) // it is gone for good: now it can go back
	if o, err := r.Restore(context.Background(), uidOf(1), n.shown(1)); err != nil || o.Result != policy.Done || n.pods[uidOf(1)] != elder {
		t.Errorf("%+v, %v", o, err)
	}
}

// absentNode is a node whose looks do not find what lies in quarantine.
type absentNode struct{ *fakeNode }

func (n absentNode) Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	look, err := n.fakeNode.Look(ctx, parked, only)
	for i := range look.Parked {
		look.Parked[i].Facts.Set(policy.FactDirectory, policy.No, "fake", "")
	}
	return look, err
}

// TestBackSinceTheLook: what a look did not find in quarantine is written off, and nothing is removed
// of it should it be there after all: nobody has asked whether its pod lives.
func TestBackSinceTheLook(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, nil)
	rules := noHold()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	for _, e := range policy.Listed(n.Entries()) {
		if _, err := n.Append(policy.Record{Kind: policy.KindStripping, UID: e.UID, Entry: e.Entry, ID: e.ID}); err != nil {
			t.Fatal(err)
		}
	}
	p.facts = map[policy.FactName]policy.Truth{policy.FactCgroup: policy.Yes}
	r.Prober = absentNode{n}
	mustPass(t, r)
	if p.files != 3 || len(n.quarantine) != 1 {
		t.Fatalf("%d of 3 files are left", p.files)
	}
	r.Prober = n
	n.pass(rules.Confirm)
	mustPass(t, r)
	if p.files != 3 || !n.BreakerOpen() {
		t.Errorf("%d of 3 files are left, breaker open %t", p.files, n.BreakerOpen())
	}
}

// TestWrittenOff: what has really gone from quarantine is written off, whatever its phase.
func TestWrittenOff(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).ephemeral = true
	rules := noHold()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	n.pass(rules.Confirm)
	mustPass(t, r)
	if left := policy.Listed(n.Entries()); len(left) != 1 || left[0].Phase != policy.PhaseConfirmed {
		t.Fatalf("%+v", left)
	}
	clear(n.quarantine)
	n.pass(rules.Retention)
	mustPass(t, r)
	if left := policy.Listed(n.Entries()); len(left) != 0 {
		t.Errorf("not written off: %+v", left)
	}
}

// TestStaticPodBackWhileHeld: its manifest came back; that freezes what is held, and no
// judgement was wrong.
func TestStaticPodBackWhileHeld(t *testing.T) {
	n := newFakeNode()
	rules := atOnce()
	n.add(1, nil).ephemeral = true
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	mustPass(t, r)
	n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactStaticPod: policy.Yes, policy.FactCgroup: policy.Yes}}
	n.pass(rules.Retention + time.Hour)
	mustPass(t, r)
	if len(n.quarantine) != 1 || n.BreakerOpen() {
		t.Errorf("quarantine %v, breaker %t", n.quarantine, n.BreakerOpen())
	}
}
