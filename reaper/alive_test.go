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

// Each of these signs of life is enough by itself.
var signsOfLife = []policy.FactName{
	policy.FactSandbox, policy.FactContainer, policy.FactCgroup, policy.FactKubeletLists, policy.FactAPILists,
}

// TestLivesWhileHeld checks that a pod that shows a sign of life while its data waits in quarantine is logged and
// frozen, and opens the breaker. Otherwise the retention would remove the emptyDir of a living pod.
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
				t.Fatal("the entry is not held in quarantine")
			}
			if sign == policy.FactRemade {
				n.add(1, map[policy.FactName]policy.Truth{policy.FactStaged: policy.Yes}) // keeps the second pod in place
			} else {
				n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {sign: policy.Yes}}
			}
			n.pass(time.Hour)
			mustPass(t, r)
			for _, e := range n.Entries() {
				if e.Phase != policy.PhaseConflict {
					t.Errorf("%s, data %t: phase in the ledger is %s", sign, data, e.Phase)
				}
			}
			if !n.BreakerOpen() || !slices.Contains(n.kinds(uidOf(1)), policy.KindConflict) {
				t.Errorf("%s, data %t: breaker %t, logged %v", sign, data, n.BreakerOpen(), n.kinds(uidOf(1)))
			}
			resume(t, r)
			n.pass(1000 * time.Hour)
			mustPass(t, r)
			if len(n.quarantine) != 1 || n.BreakerOpen() {
				t.Errorf("%s, data %t: quarantine %v, breaker %t", sign, data, n.quarantine, n.BreakerOpen())
			}
			_, err := purge(t, r, n.shown(1), false)
			if !errors.Is(err, ErrLives) || !strings.Contains(err.Error(), "orphan-reaper explain") || len(n.quarantine) != 1 {
				t.Errorf("%s, data %t: purge without --force of a pod that may be alive: %v", sign, data, err)
			}
			if outs, err := purge(t, r, n.shown(1), true); err != nil || len(outs) != 1 || len(n.quarantine) != 0 {
				t.Errorf("%s, data %t: purge of a pod that the operator knows to be alive: %+v, %v", sign, data, outs, err)
			}
		}
	}
}

// TestRestoreBesideALivingPod checks that "restore" moves nothing if the pod has a newer directory in use, and
// returns the old entry as a conflict.
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
		t.Fatalf("restore beside a living pod: %+v, %v", o, err)
	}
	if n.pods[uidOf(1)] != living || n.quarantine[o.Action.Entry] != elder || n.Entries()[o.Action.Entry].Phase != policy.PhaseConflict {
		t.Fatal("a directory was moved, or the entry is no conflict")
	}
	delete(n.pods, uidOf(1)) // now the old directory can go back
	if o, err := r.Restore(context.Background(), uidOf(1), n.shown(1)); err != nil || o.Result != policy.Done || n.pods[uidOf(1)] != elder {
		t.Errorf("restore after the new directory was removed: %+v, %v", o, err)
	}
}

// absentNode is a node whose looks find nothing in quarantine.
type absentNode struct{ *fakeNode }

func (n absentNode) Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	look, err := n.fakeNode.Look(ctx, parked, only)
	for i := range look.Parked {
		look.Parked[i].Facts.Set(policy.FactDirectory, policy.No, "fake", "")
	}
	return look, err
}

// TestQuarantineBackAfterLook checks that an entry that a look did not find is recorded as gone, and that nothing of
// it is removed if it reappears, since no look has checked whether its pod lives.
func TestQuarantineBackAfterLook(t *testing.T) {
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
		t.Fatalf("%d of 3 files remain", p.files)
	}
	r.Prober = n
	n.pass(rules.Confirm)
	mustPass(t, r)
	if p.files != 3 || !n.BreakerOpen() {
		t.Errorf("%d of 3 files remain, breaker open %t", p.files, n.BreakerOpen())
	}
}

// TestWrittenOff checks that an entry whose directory has disappeared is recorded as gone in every phase.
func TestWrittenOff(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).ephemeral = true
	rules := noHold()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	n.pass(rules.Confirm)
	mustPass(t, r)
	if left := policy.Listed(n.Entries()); len(left) != 1 || left[0].Phase != policy.PhaseConfirmed {
		t.Fatalf("entries before: %+v", left)
	}
	clear(n.quarantine)
	n.pass(rules.Retention)
	mustPass(t, r)
	if left := policy.Listed(n.Entries()); len(left) != 0 {
		t.Errorf("entries not recorded as gone: %+v", left)
	}
}

// TestStaticPodBackWhileHeld checks that the return of a static pod's manifest freezes its entry in quarantine. The
// breaker stays closed: the pod was dead when it was judged.
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
