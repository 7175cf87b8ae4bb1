package reaper

import (
	"context"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

type sweptCNI struct {
	complete bool
	sweeps   int
}

func (c *sweptCNI) Sweep(context.Context, judge.Permit, judge.Snapshot, []parsers.PodUID, func(...judge.Event) bool) *CNIStatus {
	c.sweeps++
	return &CNIStatus{Complete: c.complete}
}

// TestCNIRetries: after a boot the kubelet may run before its runtime. Its stale addresses are removed soon after the runtime
// answers, and a node whose runtime never answers is not scanned all the time.
func TestCNIRetries(t *testing.T) {
	w, c := newWorld(), &sweptCNI{}
	d := w.daemon()
	d.CNI = c
	turn := func(want time.Duration) {
		t.Helper()
		before := c.sweeps
		if err := d.Turn(t.Context()); err != nil || c.sweeps != before+1 {
			t.Fatalf("%d sweeps, error %v", c.sweeps-before, err)
		}
		if got := d.Due() - w.now.Boot; got != want {
			t.Fatalf("the next pass is in %s, want %s", got, want)
		}
		w.now = w.now.Add(want)
	}
	for _, wait := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		turn(wait)
	}
	c.complete = true
	turn(time.Hour)
	c.complete = false
	for wait := 30 * time.Second; wait < time.Hour; wait *= 2 {
		turn(wait)
	}
	turn(time.Hour)
	turn(time.Hour)
}
