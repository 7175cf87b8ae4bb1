package reaper

import (
	"context"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

type sweptCNI struct {
	complete bool
	sweeps   int
	path     string
	since    time.Duration
}

func (c *sweptCNI) Sweep(context.Context, CNISweep) *CNIStatus {
	c.sweeps++
	return &CNIStatus{Complete: c.complete}
}

func (c *sweptCNI) Stuck() (path string, since time.Duration) { return c.path, c.since }

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

// TestCNIOfAll has dry runs: a question about all pods reads CNI's files, and one about some does not.
func TestCNIOfAll(t *testing.T) {
	for want, only := range [][]parsers.PodUID{{one}, nil} {
		c := &sweptCNI{}
		d := newWorld(one).daemon()
		d.CNI = c
		if _, err := d.Pass(t.Context(), Options{DryRun: true, Only: only}); err != nil || c.sweeps != want {
			t.Errorf("%v: %d sweeps, error %v", only, c.sweeps, err)
		}
	}
}

// TestCNIStuck: a sweep that hangs at a file is a call that hangs.
func TestCNIStuck(t *testing.T) {
	d := newWorld().daemon()
	for since, want := range map[time.Duration]string{stuckAfter - 1: "", stuckAfter: "/var/lib/cni/results"} {
		d.CNI = &sweptCNI{path: "/var/lib/cni/results", since: since}
		if got := d.Stuck(); got != want {
			t.Errorf("after %s: %q, want %q", since, got, want)
		}
	}
}
