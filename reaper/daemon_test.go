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

// bubbleClock ties the fake node's clocks to the bubble's time.
type bubbleClock struct {
	start time.Time
	base  policy.Instant
}

func (c bubbleClock) Now() policy.Instant {
	d := time.Since(c.start)
	return policy.Instant{Wall: c.base.Wall.Add(d), BootID: c.base.BootID, Boot: c.base.Boot + d}
}

// clockedNode reads the bubble's time wherever the node asks for its own.
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
			return parsers.Sighting{UID: uid, PID: n.node.KubeletID.PID, Whole: true, Time: clock.Now().Wall}, ok
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

// TestDaemonRepeatedLine: the kubelet repeats itself every 2 s; the pod goes after hold and
// confirm, and the repetition does not buy a look each time.
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
			t.Errorf("after 8 minutes: %v, %v", n.pods, n.quarantine)
		}
		if n.looks > 25 {
			t.Errorf("%d looks in 8 minutes", n.looks)
		}
	})
}

// TestDaemonIdle: with nothing to do the daemon looks at the start and once an hour.
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

// TestDaemonForgedFlood: lines that name pods that do not exist, each another, cannot buy
// more than a look in 5 s, and the true one is still served.
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
			t.Error("the true orphan was not served")
		}
	})
}

// TestDaemonLogsContradiction: it is logged once, again when it changes, and when it ends. The status line has it as long as
// it lasts.
func TestDaemonLogsContradiction(t *testing.T) {
	n := newFakeNode()
	var log strings.Builder
	var status string
	r := n.reaper(t, testRules)
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	d := &Daemon{Reaper: r, Status: func(s string) { status = s }, next: &pending{gap: minGap}}
	for _, c := range []struct {
		agrees policy.Fact
		logged string // "" is nothing new
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

// movedNode is a node on which only a new start can find a directory.
type movedNode struct {
	clockedNode
	err error
}

func (m movedNode) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, fmt.Errorf("%w: it is elsewhere", m.err)
}

// TestDaemonRootMoved: the daemon ends, so that whoever runs it starts it at the right place, and with a new state directory.
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
			t.Errorf("it goes on, and ends with %v", err)
		}
	})
}

// slowNode is a node whose disk hangs for a while at each batch.
type slowNode struct {
	clockedNode
	hangs time.Duration
}

func (n slowNode) Execute(ctx context.Context, permit policy.Permit, plan policy.Batch) []policy.Outcome {
	time.Sleep(n.hangs)
	return n.clockedNode.Execute(ctx, permit, plan)
}

// slowMeter counts the slow passes, and how often the metrics were written.
type slowMeter struct {
	testkit.Meter
	slow, flushed *atomic.Int64
}

func (m slowMeter) Slow() { m.slow.Add(1) }
func (m slowMeter) Flush() error {
	m.flushed.Add(1)
	return nil
}

// TestDaemonTellsOfASlowPass: a batch on a frozen file system is told after 30 s, with what it
// does, and counted once, while it still hangs; its end is told, too. A quick one is not.
func TestDaemonTellsOfASlowPass(t *testing.T) {
	for hangs, want := range map[time.Duration]struct {
		told  int
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
			said := log.String()
			doing := "park of 1, the first is pod " + string(uidOf(1))
			if got := strings.Count(said, "a pass has not ended"); got != want.told || strings.Count(said, doing) != want.told {
				t.Errorf("hanging for %v: told %d times, want %d: %s", hangs, got, want.told, said)
			}
			if strings.Contains(said, "the slow pass has ended") != want.ended || meter.slow.Load() != want.slow {
				t.Errorf("hanging for %v: %d slow passes: %s", hangs, meter.slow.Load(), said)
			}
		})
	}
}
