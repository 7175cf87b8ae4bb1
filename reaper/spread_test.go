package reaper

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// spreadRules are the rules of a node with confirm 5m, whose daemon may wait for half an hour.
func spreadRules() policy.Rules {
	r := testRules
	r.Confirm, r.EnforceSpread = 5*time.Minute, 30*time.Minute
	return r
}

// daemonOn starts a daemon that waits the given share of enforce_spread.
func daemonOn(t *testing.T, n *fakeNode, rules policy.Rules, share float64) *Daemon {
	t.Helper()
	d := &Daemon{
		Reaper: n.reaper(t, rules), Status: func(string) {}, Checkpoint: func() {},
		Part: func(most time.Duration) time.Duration { return time.Duration(share * float64(most)) },
	}
	d.Begin()
	for i := range 4 {
		d.next.sighted(n.claim(i))
	}
	return d
}

// runs runs all passes of a daemon that are due within a time.
func (n *fakeNode) runs(t *testing.T, d *Daemon, most time.Duration) {
	t.Helper()
	for end := n.now.Boot + most; ; {
		due := d.Due()
		if due == 0 || due > end {
			n.pass(end - n.now.Boot)
			return
		}
		n.pass(max(0, due-n.now.Boot))
		if err := d.Turn(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// first returns the time of the node's first record of a kind.
func (n *fakeNode) first(kind policy.Kind) (time.Time, bool) {
	i := slices.IndexFunc(n.records, func(r policy.Record) bool { return r.Kind == kind })
	if i < 0 {
		return time.Time{}, false
	}
	return n.records[i].At.Wall, true
}

// TestSpreadLimitsLoss: all nodes of a fleet change to mode enforce at the same moment with wrong evidence, and each
// parked pod proves alive. Without enforce_spread every node moves a living pod before the first breaker opens.
func TestSpreadLimitsLoss(t *testing.T) {
	const nodes = 100
	lost := func(spread time.Duration) (parked int) {
		var moved []time.Time
		breaker := time.Unix(math.MaxInt32, 0)
		for i := range nodes {
			n, rules := newFakeNode(), spreadRules()
			n.add(1, nil)
			rules.EnforceSpread, rules.Observe = spread, true
			n.runs(t, daemonOn(t, n, rules, 0), time.Hour)
			n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactCgroup: policy.Yes}}
			rules.Observe = false
			n.runs(t, daemonOn(t, n, rules, math.Cbrt(float64(i+1)/nodes)), time.Hour)
			at, ok := n.first(policy.KindParked)
			opened, open := n.first(policy.KindBreaker)
			if !ok || !open {
				t.Fatalf("node %d: parked %t, breaker %t", i, ok, open)
			}
			moved = append(moved, at)
			if opened.Before(breaker) {
				breaker = opened
			}
		}
		for _, at := range moved {
			if !at.After(breaker) {
				parked++
			}
		}
		return parked
	}
	if n := lost(0); n != nodes {
		t.Errorf("without enforce_spread %d of %d nodes moved a pod before the first breaker opened", n, nodes)
	}
	if n := lost(30 * time.Minute); n > nodes/10 {
		t.Errorf("%d of %d nodes moved a pod before the first breaker opened", n, nodes)
	}
}

// TestSpreadOnce checks that a node waits once, also across restarts of its daemon, and again after mode observe.
func TestSpreadOnce(t *testing.T) {
	n, rules := newFakeNode(), spreadRules()
	n.add(1, nil)
	inPlace := func(i int, want bool, when string) {
		t.Helper()
		if in := n.pods[uidOf(i)] != nil; in != want {
			t.Errorf("%s: pod in place: %t", when, in)
		}
	}
	for range 5 { // later starts do not change the wait
		d := daemonOn(t, n, rules, 1)
		n.runs(t, d, 5*time.Minute)
		if left := DelayOf(n, n.now, rules.EnforceSpread); left.Left != d.enforcing.left(n.now, rules.EnforceSpread).Left || left.Left == 0 {
			t.Errorf("another process reads %+v", left)
		}
	}
	inPlace(1, true, "after 25 of 30 minutes")
	n.now.BootID, n.now.Boot = "c", 2*time.Hour // a reboot
	n.runs(t, daemonOn(t, n, rules, 1), 10*time.Minute)
	inPlace(1, false, "after 35 minutes, and the hold of a reboot")

	n.add(2, nil)
	n.runs(t, daemonOn(t, n, rules, 1), 20*time.Minute)
	inPlace(2, false, "after a restart of a node that enforced")

	n.add(3, nil)
	rules.Observe = true
	n.runs(t, daemonOn(t, n, rules, 1), 20*time.Minute)
	rules.Observe = false
	n.runs(t, daemonOn(t, n, rules, 1), 20*time.Minute)
	inPlace(3, true, "20 minutes after it changed again")
	rules.EnforceSpread = 0
	n.runs(t, daemonOn(t, n, rules, 1), time.Minute)
	inPlace(3, false, "without enforce_spread")
}

// TestRandomPart checks that no node waits longer than enforce_spread, and that few nodes start early.
func TestRandomPart(t *testing.T) {
	early := 0
	for range 5000 {
		part := randomPart(30 * time.Minute)
		if part < 0 || part > 30*time.Minute {
			t.Fatal(part)
		}
		if part < 10*time.Minute {
			early++
		}
	}
	if early < 50 || early > 500 {
		t.Errorf("%d of 5,000 nodes start in the first third", early)
	}
}
