package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// bubbleClock derives the fake node's clocks from the synctest bubble's time.
type bubbleClock struct {
	start time.Time
	base  policy.Instant
}

func (c bubbleClock) Now() policy.Instant {
	d := time.Since(c.start)
	return policy.Instant{Wall: c.base.Wall.Add(d), BootID: c.base.BootID, Boot: c.base.Boot + d}
}

// clockedNode is a fakeNode whose clock is the bubble's.
type clockedNode struct {
	*fakeNode
	clock bubbleClock
}

func (n clockedNode) Now() policy.Instant { return n.clock.Now() }

func (n clockedNode) Look(ctx context.Context, p []policy.EntryState, o []parsers.PodUID) (policy.Look, error) {
	n.now = n.clock.Now()
	return n.fakeNode.Look(ctx, p, o)
}

func startDaemon(t *testing.T, n *fakeNode, rules policy.Rules) (chan<- parsers.Line, func()) {
	t.Helper()
	clock := bubbleClock{time.Now(), n.now}
	r := n.reaper(t, rules)
	node := clockedNode{n, clock}
	r.Prober, r.Clock = node, node
	lines := make(chan parsers.Line)
	d := &Daemon{
		Reaper: r, Lines: lines, Status: func(string) {}, Checkpoint: func() {},
		Parse: func(l parsers.Line) (parsers.Sighting, bool) {
			uid, ok := parsers.ParsePodUID(string(l.Text))
			return parsers.Sighting{UID: uid, Kind: parsers.KindRemoval, PID: n.node.KubeletID.PID, Whole: true, Time: clock.Now().Wall}, ok
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	return lines, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestDaemonRepeatedLine checks that the pod is removed after hold and confirm while the kubelet repeats its line
// every 2 s, and that the repetitions do not cause a look each.
func TestDaemonRepeatedLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		n.add(1, nil)
		n.add(2, map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes})
		lines, stop := startDaemon(t, n, testRules)
		for range 8 * 30 {
			lines <- parsers.Line{Text: []byte(uidOf(1))}
			lines <- parsers.Line{Text: []byte(uidOf(2))}
			time.Sleep(2 * time.Second)
		}
		stop()
		if n.pods[uidOf(1)] != nil || len(n.quarantine) != 0 {
			t.Errorf("after 8 minutes: pods %v, quarantine %v", n.pods, n.quarantine)
		}
		if n.looks > 25 {
			t.Errorf("%d looks in 8 minutes", n.looks)
		}
	})
}

// TestDaemonIdle checks that a daemon without work looks at its start and once an hour.
func TestDaemonIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		n.add(1, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes})
		_, stop := startDaemon(t, n, testRules)
		time.Sleep(24*time.Hour + time.Minute)
		stop()
		if n.looks != 25 {
			t.Errorf("%d looks in a day", n.looks)
		}
	})
}

// TestDaemonForgedFlood checks that lines that each name another nonexistent pod cause one look in 5 s at most, and
// that the real orphan is removed all the same.
func TestDaemonForgedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		n.add(1, nil)
		lines, stop := startDaemon(t, n, testRules)
		for i := range 10 * 60 * 20 {
			lines <- parsers.Line{Text: []byte(uidOf(1000 + i))}
			if i%40 == 0 {
				lines <- parsers.Line{Text: []byte(uidOf(1))}
			}
			time.Sleep(50 * time.Millisecond)
		}
		stop()
		if n.looks > 10*60/4 {
			t.Errorf("%d looks in 10 minutes", n.looks)
		}
		if n.pods[uidOf(1)] != nil {
			t.Error("the real orphan was not removed")
		}
	})
}

// TestDaemonLogsContradiction checks that a contradiction between the two sources of the kubelet's log is logged
// once, again when it changes and when it ends, and that the status line shows it meanwhile.
func TestDaemonLogsContradiction(t *testing.T) {
	n := newFakeNode()
	var log strings.Builder
	var status string
	r := n.reaper(t, testRules)
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	d := &Daemon{Reaper: r, Status: func(s string) { status = s }, next: &pending{gap: minGap}}
	for _, c := range []struct {
		agrees policy.Fact
		logged string // "": nothing
		status string
	}{
		{policy.Fact{Truth: policy.Yes}, "", "0 pod directories"},
		{policy.Fact{Truth: policy.No, Detail: "two roots"}, "two roots", "removing nothing: two roots"},
		{policy.Fact{Truth: policy.No, Detail: "two roots"}, "", "removing nothing: two roots"},
		{policy.Fact{Detail: "cannot tell"}, "cannot tell", "removing nothing: cannot tell"},
		{policy.Fact{Truth: policy.Yes}, "agree again", "0 pod directories"},
	} {
		log.Reset()
		var rep Report
		rep.Look.Node.Agrees = c.agrees
		d.handle(passResult{rep: rep})
		if (log.Len() > 0) != (c.logged != "") || !strings.Contains(log.String(), c.logged) || !strings.Contains(status, c.status) {
			t.Errorf("%+v: status %q, log %q", c.agrees, status, log.String())
		}
	}
}

// movedNode is a node whose looks fail because a directory has moved.
type movedNode struct {
	clockedNode
	err error
}

func (m movedNode) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, fmt.Errorf("%w: moved", m.err)
}

// TestDaemonRootMoved checks that the daemon ends if the root or the state directory has moved, so that systemd
// starts it with the new paths.
func TestDaemonRootMoved(t *testing.T) {
	for _, moved := range []error{policy.ErrRootMoved, policy.ErrStateRemoved} {
		t.Run(moved.Error(), func(t *testing.T) { daemonEnds(t, moved) })
	}
}

func daemonEnds(t *testing.T, moved error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		clock := bubbleClock{time.Now(), n.now}
		r := n.reaper(t, testRules)
		r.Prober, r.Clock = movedNode{clockedNode{n, clock}, moved}, clock
		d := &Daemon{Reaper: r, Status: func(string) {}, Checkpoint: func() {}}
		if err := d.Run(t.Context()); !errors.Is(err, moved) {
			t.Errorf("the daemon does not end with %v", err)
		}
	})
}

// slowNode is a node whose disk hangs at each batch.
type slowNode struct {
	clockedNode
	hangs time.Duration
}

func (n slowNode) Execute(ctx context.Context, permit policy.Permit, plan policy.Batch) []policy.Outcome {
	time.Sleep(n.hangs)
	return n.clockedNode.Execute(ctx, permit, plan)
}

// slowMeter counts the slow passes and the flushes of the metrics.
type slowMeter struct {
	testkit.Meter
	slow, flushed *atomic.Int64
}

func (m slowMeter) Slow()  { m.slow.Add(1) }
func (m slowMeter) Flush() { m.flushed.Add(1) }

// TestDaemonLogsSlowPass checks that a batch that hangs for 30 s is logged with its action and counted once, while it
// still hangs, and that its end is logged. A quick batch is not.
func TestDaemonLogsSlowPass(t *testing.T) {
	for hangs, want := range map[time.Duration]struct {
		lines int
		slow  int64
		ended bool
	}{20 * time.Second: {0, 0, false}, 100 * time.Second: {2, 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode()
			n.add(1, nil)
			rules := noHold()
			rules.Confirm = time.Hour
			clock := bubbleClock{time.Now(), n.now}
			r := n.reaper(t, rules)
			node := slowNode{clockedNode{n, clock}, hangs}
			meter := slowMeter{slow: new(atomic.Int64), flushed: new(atomic.Int64)}
			var log strings.Builder
			r.Prober, r.Clock, r.Remover, r.Meter = node, node, node, meter
			r.Log = slog.New(slog.NewTextHandler(&log, nil))
			lines := make(chan parsers.Line)
			d := &Daemon{
				Reaper: r, Lines: lines, Status: func(string) {}, Checkpoint: func() {},
				Parse: func(parsers.Line) (parsers.Sighting, bool) { return n.claim(1).Sighting, true },
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.Run(ctx) }()
			lines <- parsers.Line{}
			time.Sleep(35 * time.Second)
			synctest.Wait()
			if got := meter.slow.Load(); got != want.slow {
				t.Errorf("hanging for %v: %d slow passes after 35 s, want %d", hangs, got, want.slow)
			}
			time.Sleep(2 * time.Minute)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			logged := log.String()
			doing := "park of 1, the first is pod " + string(uidOf(1))
			if got := strings.Count(logged, "a pass has not ended"); got != want.lines || strings.Count(logged, doing) != want.lines {
				t.Errorf("hanging for %v: logged %d times, want %d: %s", hangs, got, want.lines, logged)
			}
			if strings.Contains(logged, "the slow pass has ended") != want.ended || meter.slow.Load() != want.slow {
				t.Errorf("hanging for %v: %d slow passes: %s", hangs, meter.slow.Load(), logged)
			}
		})
	}
}
