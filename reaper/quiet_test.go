package reaper

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// wentQuiet are the records of that kind that people were told.
func (n *fakeNode) wentQuiet() []policy.Record {
	return slices.DeleteFunc(slices.Clone(n.told), func(r policy.Record) bool { return r.Kind != policy.KindQuiet })
}

// TestQuietForged: lines that anyone can write count for nothing, whoever they name.
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

// quietNode is a node on which a pod was parked and the confirm time is over.
func quietNode(t *testing.T) (*fakeNode, policy.Rules) {
	t.Helper()
	n, rules := newFakeNode(), noHold()
	n.add(1, nil)
	r := n.reaper(t, rules)
	c := n.claim(1)
	c.Lines = 5
	mustPass(t, r, c)
	if n.pods[uidOf(1)] != nil {
		t.Fatal("not parked")
	}
	n.pass(rules.Confirm)
	return n, rules
}

// TestQuietCutOff: killed at any step, the record comes, once more at the most, and the table by days
// has the pod once.
func TestQuietCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		n, rules := quietNode(t)
		n.cutAt = n.steps + cut
		whole := !killed(func() { mustPass(t, n.reaper(t, rules)) })
		n.cutAt = 0
		n.pass(time.Minute)
		mustPass(t, n.reaper(t, rules))
		if told := n.wentQuiet(); len(told) < 1 || len(told) > 2 || told[0].Lines != 5 {
			t.Errorf("cut at %d: told %+v", cut, told)
		}
		saved, _ := n.files["quiet"].(reported.Messages)
		if len(saved.Pods) != 0 || len(saved.Days) != 1 || saved.Days[0].Pods != 1 || saved.Days[0].Lines != 5 {
			t.Errorf("cut at %d: saved %+v", cut, saved)
		}
		if whole {
			if cut < 4 {
				t.Errorf("only %d steps", cut)
			}
			return
		}
	}
}

// TestQuietLedgerFull: what the ledger does not take is told later, and a dry run tells nothing.
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
		t.Errorf("told %+v, errors %q", n.wentQuiet(), rep.Look.Errors)
	}
	n.ledgerErr = nil
	if mustPass(t, r); len(n.wentQuiet()) != 1 {
		t.Errorf("told %+v", n.wentQuiet())
	}
}

// TestPendingCountsOnce: a claim stands for all its lines, also where some came while a look ran, and
// where a look failed.
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
