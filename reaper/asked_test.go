package reaper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestDaemonAsked checks that requests for a look share one: a request that comes while a look waits or runs gets its
// result, and the next look starts 10 s later at the earliest. So a client cannot keep the daemon busy.
func TestDaemonAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		n.add(1, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes})
		clock := bubbleClock{time.Now(), n.now}
		r := n.reaper(t, testRules)
		node := clockedNode{n, clock}
		r.Prober, r.Clock = node, node
		asks := make(chan func(Asked))
		var ended []uint64
		d := &Daemon{
			Reaper: r, Asks: asks, Status: func(string) {}, Checkpoint: func() {},
			Ended: func(look uint64, rep Report, err error) {
				if err != nil || len(rep.Pods) != 1 {
					t.Errorf("look %d: %v, %d pods", look, err, len(rep.Pods))
				}
				ended = append(ended, look)
			},
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		ask := func() Asked {
			answer := make(chan Asked, 1)
			asks <- func(a Asked) { answer <- a }
			return <-answer
		}
		if a := ask(); a.Look != 1 || a.In > time.Millisecond {
			t.Errorf("result before the first look: %+v", a)
		}
		time.Sleep(time.Second)
		first := ask()
		if first.Look != 2 || first.In > askedGap {
			t.Errorf("second result %+v", first)
		}
		for range 1000 {
			if a := ask(); a.Look != first.Look {
				t.Fatalf("another client got %+v, want %+v", a, first)
			}
		}
		time.Sleep(askedGap)
		for range 600 {
			ask()
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n.looks < 7 || n.looks > 9 || len(ended) != n.looks || ended[len(ended)-1] != uint64(n.looks) {
			t.Errorf("%d looks in 71 s of continuous requests, results %v", n.looks, ended)
		}
	})
}

// blindNode is a node on which every look fails.
type blindNode struct{ *fakeNode }

func (blindNode) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, errors.New("no pods directory")
}

// TestDaemonReportsFailedPass checks that the callback for passes receives a failed one, too, with the time of the
// next.
func TestDaemonReportsFailedPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		r := n.reaper(t, testRules)
		r.Prober, r.Clock = blindNode{n}, bubbleClock{time.Now(), n.now}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		d := &Daemon{Reaper: r, Status: func(string) {}, Checkpoint: func() {}}
		d.Ended = func(look uint64, rep Report, err error) {
			if look != 1 || err == nil || rep.Next != failedAgain {
				t.Errorf("look %d: %v, next in %s", look, err, rep.Next)
			}
			cancel()
		}
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}
