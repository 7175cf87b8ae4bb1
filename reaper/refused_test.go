package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestRefusedIsShown checks that a dry run of another process shows that the kernel has refused an action instead of
// promising a removal. A new process tries again at once: the cause may have been repaired.
func TestRefusedIsShown(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	dry := func() policy.Judged {
		rep, err := n.reaper(t, noHold()).Pass(t.Context(), Options{DryRun: true})
		if err != nil || len(rep.Pods) != 1 {
			t.Fatal(rep.Pods, err)
		}
		return rep.Pods[0]
	}

	n.immutable = true
	mustPass(t, n.reaper(t, noHold()), n.claim(1))
	if p := dry(); p.Decision != policy.Keep || !p.For(policy.ReasonCannotMove) {
		t.Errorf("dry run after a refused rename shows %s %v", p.Decision, p.Why)
	}
	n.immutable = false
	mustPass(t, n.reaper(t, noHold()), n.claim(1))
	if len(n.quarantine) != 1 {
		t.Fatal("a new process does not try again")
	}

	n.stays = true
	n.pass(testRules.Confirm + time.Second)
	mustPass(t, n.reaper(t, noHold()))
	if p := dry(); p.Decision != policy.Keep || !p.For(policy.ReasonRemoval) {
		t.Errorf("dry run after a refused removal shows %s %v", p.Decision, p.Why)
	}
	n.stays = false
	mustPass(t, n.reaper(t, noHold()))
	if len(n.quarantine) != 0 {
		t.Error("a new process does not try again")
	}
}

// TestFailedPurgeEnds checks that after a purge was reported as failed no later pass purges the user's data, also
// once the obstacle is gone.
func TestFailedPurgeEnds(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, nil)
	p.data, p.ephemeral = true, true
	r := n.reaper(t, atOnce())
	mustPass(t, r, n.claim(1))
	n.stays = true
	outs, err := purge(t, r, n.shown(1), false)
	if err != nil || outs[0].Result != policy.Failed {
		t.Fatal(outs, err)
	}
	n.stays = false
	n.pass(time.Hour)
	r = n.reaper(t, atOnce())
	for range 3 {
		mustPass(t, r)
		n.pass(time.Minute)
	}
	entries := n.Entries()
	if len(n.quarantine) != 1 || !p.data || !p.ephemeral || n.shown(1)[0].Phase != policy.PhaseConfirmed {
		t.Errorf("%d in quarantine: %+v", len(n.quarantine), entries)
	}
}
