package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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

// TestDaemonSeesAtOnce: from the line to the parked pod with no hold.
func TestDaemonSeesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		rules := testRules
		rules.Hold = 0
		lines, stop := startDaemon(t, n, rules)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.add(1, nil)
		lines <- parsers.Line{Text: []byte(uidOf(1))}
		time.Sleep(400 * time.Millisecond)
		stop()
		if len(n.quarantine) != 1 {
			t.Error("not parked within 400 ms")
		}
	})
}

// TestDaemonTellsOfAContradiction: once, again when it changes, and when it ends; the
// status line has it for as long as it lasts.
func TestDaemonTellsOfAContradiction(t *testing.T) {
	n := newFakeNode()
	var log strings.Builder
	var status string
	r := n.reaper(t, testRules)
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	d := &Daemon{Reaper: r, Status: func(s string) { status = s }}
	p := &pending{gap: minGap}
	for _, c := range []struct {
		agrees policy.Fact
		told   string // "" is nothing new
		status string
	}{
		{policy.Fact{Truth: policy.Yes}, "", "0 pod directories"},
		{policy.Fact{Truth: policy.No, Detail: "two roots"}, "two roots", "taking nothing: two roots"},
		{policy.Fact{Truth: policy.No, Detail: "two roots"}, "", "taking nothing: two roots"},
		{policy.Fact{Detail: "cannot tell"}, "cannot tell", "taking nothing: cannot tell"},
		{policy.Fact{Truth: policy.Yes}, "agree again", "0 pod directories"},
	} {
		log.Reset()
		var rep Report
		rep.Look.Node.Agrees = c.agrees
		d.ended(p, passed{rep: rep})
		if (log.Len() > 0) != (c.told != "") || !strings.Contains(log.String(), c.told) || !strings.Contains(status, c.status) {
			t.Errorf("%+v: status %q, log %q", c.agrees, status, log.String())
		}
	}
}

// movedNode is a node whose kubelet came back with another root directory.
type movedNode struct{ clockedNode }

func (movedNode) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, fmt.Errorf("%w: it is elsewhere", policy.ErrRootMoved)
}

// TestDaemonRootMoved: the daemon ends, so that whoever runs it starts it at the right place.
func TestDaemonRootMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode()
		clock := bubbleClock{time.Now(), n.now}
		r := n.reaper(t, testRules)
		r.Prober, r.Clock = movedNode{clockedNode{n, clock}}, clock
		d := &Daemon{Reaper: r, Status: func(string) {}, Checkpoint: func() {}}
		if err := d.Run(t.Context()); !errors.Is(err, policy.ErrRootMoved) {
			t.Errorf("it goes on, and ends with %v", err)
		}
	})
}

// TestDaemonBuildNode: once a minute, for a while, a process on the node hides what is mounted.
// With the defaults the orphans go within hold, confirm and three minutes all the same; no look
// is bought that a quiet node would not have had, but for one a few seconds after each doubt.
func TestDaemonBuildNode(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 20 * time.Second, 40 * time.Second} {
		for _, phase := range []time.Duration{0, 15 * time.Second, 45 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode()
				for i := range 4 {
					n.add(i, nil)
				}
				doubts := 0
				n.doubted = func(now policy.Instant) bool {
					if (now.Boot+phase)%time.Minute >= lasts {
						return false
					}
					doubts++
					return true
				}
				rules := testRules
				rules.Hold, rules.Confirm = 5*time.Minute, 5*time.Minute
				lines, stop := startDaemon(t, n, rules)
				lines <- parsers.Line{Text: []byte(uidOf(0))}
				// The first pod goes all the way before the others: twice confirm.
				time.Sleep(rules.Hold + 2*rules.Confirm + 3*time.Minute)
				stop()
				if len(n.pods) != 0 || len(n.quarantine) != 0 {
					t.Errorf("%s from %s on: %d pods are there still, %d in quarantine", lasts, phase, len(n.pods), len(n.quarantine))
				}
				if n.looks > 60 {
					t.Errorf("%s from %s on: %d looks", lasts, phase, n.looks)
				}
				if phase == 0 && doubts == 0 {
					t.Error("no look met the doubt: the test shows nothing")
				}
			})
		}
	}
}
