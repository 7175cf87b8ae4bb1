package reaper

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// wentQuiet returns the logged records of pods that the kubelet stopped reporting.
func (n *fakeNode) wentQuiet() []policy.Record {
	return slices.DeleteFunc(slices.Clone(n.logged), func(r policy.Record) bool { return r.Kind != policy.KindQuiet })
}

// TestQuietForged checks that lines that any process can write are not counted.
func TestQuietForged(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	r := n.reaper(t, testRules)
	own, other, part, unknown := n.claim(1), n.claim(1), n.claim(1), n.claim(7)
	other.Sighting.PID, part.Sighting.Whole = 99, false
	for i, c := range []*reported.Claim{&own, &other, &part, &unknown} {
		c.Lines = []int{3, 1000, 1000, 1000}[i]
	}
	mustPass(t, r, own, other, part, unknown)
	if pods := r.memory.Messages.Pods; len(pods) != 1 || pods[uidOf(1)].Lines != 3 {
		t.Errorf("%+v", pods)
	}
}

// quietNode is a node with a parked pod whose confirm time is over.
func quietNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n, rules := newFakeNode(), noHold()
	n.add(1, nil)
	r := n.reaper(t, rules)
	c := n.claim(1)
	c.Lines = 5
	mustPass(t, r, c)
	if n.pods[uidOf(1)] != nil {
		t.Fatal("the pod was not parked")
	}
	n.pass(rules.Confirm)
	return n, rules
}

// TestQuietCutOff kills the process at each step: the record is logged once or twice, and the pod is then forgotten.
func TestQuietCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		n, rules := quietNode(t)
		n.cutAt = n.steps + cut
		whole := !killed(func() { mustPass(t, n.reaper(t, rules)) })
		n.cutAt = 0
		n.pass(time.Minute)
		mustPass(t, n.reaper(t, rules))
		if logged := n.wentQuiet(); len(logged) < 1 || len(logged) > 2 || logged[0].Lines != 5 {
			t.Errorf("cut at %d: logged %+v", cut, logged)
		}
		saved, _ := n.files["quiet"].(reported.Messages)
		if len(saved.Pods) != 0 {
			t.Errorf("cut at %d: saved %+v", cut, saved)
		}
		if whole {
			if cut < 4 {
				t.Errorf("there are only %d steps", cut)
			}
			return
		}
	}
}

// TestQuietLedgerFull checks that a record that the ledger could not store is logged later, and that a dry run logs
// none.
func TestQuietLedgerFull(t *testing.T) {
	n, rules := quietNode(t)
	r := n.reaper(t, rules)
	if _, err := r.Pass(t.Context(), Options{DryRun: true}); err != nil {
		t.Fatal(err)
	}
	r = n.reaper(t, rules)
	n.ledgerErr = errors.New("no space left on device")
	rep := mustPass(t, r)
	if len(n.wentQuiet()) != 0 || len(rep.Look.Errors) == 0 {
		t.Errorf("logged %+v, errors %q", n.wentQuiet(), rep.Look.Errors)
	}
	n.ledgerErr = nil
	if mustPass(t, r); len(n.wentQuiet()) != 1 {
		t.Errorf("logged %+v", n.wentQuiet())
	}
}

// TestPendingCountsOnce checks that a claim counts all its lines once, also those that arrive during a look or before
// a look that fails.
func TestPendingCountsOnce(t *testing.T) {
	var p pending
	n := newFakeNode()
	c := n.claim(1)
	c.Lines = 1
	for range 3 {
		p.sighted(c)
	}
	p.lookEnded(Report{}, nil, n.now.Boot)
	failed := p.take()
	p.sighted(c)
	for _, c := range failed {
		p.sighted(c)
	}
	if claims := p.take(); len(claims) != 1 || claims[0].Lines != 4 {
		t.Errorf("%+v", claims)
	}
}
