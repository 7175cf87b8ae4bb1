package reaper

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const (
	one = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001")
	two = parsers.PodUID("0badf00d-0002-4aaa-8bbb-cccc00000002")
)

const (
	moveOne    = "write moving; scan 1+0; quarantine " + string(one) + "; write quarantined; scan 1+1"
	restoreOne = "; write breaker; write restoring; restore " + string(one) + "; write restored"
	cleanOne   = "; write cleaning; clean " + string(one) + "; write removed"
)

// TestLife has every call of the loop, in order, for one pod from the first report to its end.
func TestLife(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	w.run(t.Context(), t, d, 10*time.Minute)
	if got, want := w.has(), moveOne+cleanOne; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(w.pods)+len(w.moved)+len(w.Entries()) > 0 {
		t.Errorf("left: %v, %v, %v", w.pods, w.moved, w.Entries())
	}
}

// TestQuarantineMade: the first pass that may move something makes the quarantine, since the disk may be full when it is needed.
func TestQuarantineMade(t *testing.T) {
	for _, observe := range []bool{true, false} {
		w := newWorld()
		d := w.daemon()
		d.Settings.Observe = observe
		if err := d.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.made == observe {
			t.Errorf("observe %v: made %v", observe, w.made)
		}
	}
}

// TestDeaf: without a log no line asks for a pass, so the node is scanned more often: the kubelet may have another log.
func TestDeaf(t *testing.T) {
	w := newWorld()
	d := w.daemon()
	var problems []string
	d.LogProblems = func() []string { return problems }
	for _, test := range []struct {
		problems []string
		want     time.Duration
	}{{nil, otherwise}, {[]string{"it is gone"}, whileReported}} {
		problems = test.problems
		if err := d.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.Due() - w.Now().Boot; got != test.want {
			t.Errorf("%v: the next pass is due in %s, not %s", test.problems, got, test.want)
		}
	}
}

// TestSteps changes the world right before one call, and has what the loop does.
func TestSteps(t *testing.T) {
	tests := []struct {
		name, before string
		change       func(w *world, stop func())
		want         string
	}{
		{"alive at the second scan", "scan 1+0", func(w *world, _ func()) { w.pods[one].alive = true }, "write moving; scan 1+0; write not-moved"},
		{"another directory at the second scan", "scan 1+0", func(w *world, _ func()) { w.pods[one].ino = 9 }, "write moving; scan 1+0; write not-moved"},
		{"another kubelet at the second scan", "scan 1+0", func(w *world, _ func()) { w.kubelet = 101 }, "write moving; scan 1+0; write not-moved"},
		{"mounts are not visible at the second scan", "scan 1+0", func(w *world, _ func()) { w.blind = true }, "write moving; scan 1+0; write not-moved"},
		{"alive right after the move", "scan 1+1", func(w *world, _ func()) { w.returns() }, moveOne + restoreOne},
		{
			"stopped right after the move, and alive", "write quarantined",
			func(w *world, stop func()) { w.returns(); stop() }, moveOne + restoreOne,
		},
		{
			"stopped right before the move", "scan 1+0",
			func(_ *world, stop func()) { stop() }, "write moving; scan 1+0; quarantine " + string(one),
		},
	}
	for _, test := range tests {
		w := newWorld(one)
		d := w.daemon()
		ctx, stop := context.WithCancel(t.Context())
		w.before = func(call string) {
			if call == test.before {
				w.before = func(string) {}
				test.change(w, stop)
			}
		}
		w.run(ctx, t, d, 70*time.Second)
		stop()
		if got := w.has(); got != test.want {
			t.Errorf("%s:\n%s\nwant %s", test.name, got, test.want)
		}
		if _, open := w.Breaker(); open != strings.Contains(test.want, "breaker") || d.last.Operator != open {
			t.Errorf("%s: the breaker is open: %t, and an operator is needed: %t", test.name, open, d.last.Operator)
		}
	}
}

// TestHoldBeginsAgain has a pod that shows itself only to the scan right before the move, or right after it: a hold passes
// before the next move. A restored pod has ten times the hold.
func TestHoldBeginsAgain(t *testing.T) {
	for call, hold := range map[string]time.Duration{"scan 1+0": 50 * time.Second, "scan 1+1": 9 * time.Minute} {
		w := newWorld(one)
		d := w.daemon()
		w.Folded.Breaker = &judge.Event{} // the pod waits for longer than ten holds
		w.run(t.Context(), t, d, 11*time.Minute)
		w.Folded.Breaker = nil
		w.before = func(c string) {
			switch c {
			case call:
				if p := w.pods[one]; p != nil {
					p.alive = true
				}
				w.returns()
			case "write not-moved", "write restored":
				w.pods[one].alive = false
				w.before = func(string) {}
			}
		}
		w.run(t.Context(), t, d, 5*time.Second)
		w.Folded.Breaker = nil // an operator resumes
		before := len(w.calls)
		w.run(t.Context(), t, d, hold)
		if moved := w.pods[one] == nil; moved {
			t.Errorf("%s: moved again at once: %v", call, w.calls[before:])
		}
	}
}

// TestReturnsInQuarantine has a pod that is alive again two minutes after its move: it is restored within 30 seconds.
func TestReturnsInQuarantine(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	w.run(t.Context(), t, d, 3*time.Minute)
	if w.pods[one] != nil {
		t.Fatal("it was not moved")
	}
	w.returns()
	w.run(t.Context(), t, d, 35*time.Second)
	if w.pods[one] == nil {
		t.Error("it is still in quarantine")
	}
}

// TestReportedAgain has a pod that is alive for a moment, in which a scan sees it, while its reports are less than a minute
// apart. It is judged again soon.
func TestReportedAgain(t *testing.T) {
	for _, alive := range []time.Duration{15 * time.Second, 45 * time.Second} {
		w := newWorld(one)
		d := w.daemon()
		w.run(t.Context(), t, d, 20*time.Second)
		w.pods[one].alive = true
		w.run(t.Context(), t, d, alive)
		w.pods[one].alive = false
		w.run(t.Context(), t, d, 7*time.Minute)
		if w.pods[one] != nil {
			t.Errorf("after %s: it was not moved", alive)
		}
	}
}

// TestNotListed has one scan that does not find a reported pod. It is judged again soon, though its reports go on.
func TestNotListed(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	w.run(t.Context(), t, d, 20*time.Second)
	p := w.pods[one]
	delete(w.pods, one)
	if err := d.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pods[one] = p
	if w.run(t.Context(), t, d, 3*time.Minute); w.pods[one] != nil {
		t.Error("it was not moved")
	}
}

// TestLedgerFails shows that nothing is changed whose intent is not on disk, and that it is tried again.
func TestLedgerFails(t *testing.T) {
	w := newWorld(one)
	w.fail = "moving"
	d := w.daemon()
	w.run(t.Context(), t, d, 2*time.Minute)
	if got := w.has(); strings.Contains(got, "quarantine") || !strings.Contains(got, "write moving") {
		t.Errorf("%s", got)
	}
	w.fail, w.calls = "", nil
	w.run(t.Context(), t, d, 10*time.Minute)
	if got, want := w.has(), moveOne+cleanOne; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// killed is what a test panics with to kill the daemon at a call.
type killed struct{}

// TestKilled kills the daemon before each of its calls, for a pod that is dead and one that turns out to be alive right
// after its move, and starts another one: the pod ends where it belongs.
func TestKilled(t *testing.T) {
	for _, alive := range []bool{false, true} {
		for at := 0; ; at++ {
			w := newWorld(one)
			n := 0
			returns := func(call string) {
				if alive && call == "write quarantined" {
					w.returns()
				}
			}
			w.before = func(call string) {
				returns(call)
				if n++; n > at {
					panic(killed{})
				}
			}
			ended := func() (ended bool) {
				defer func() {
					if r := recover(); r != nil {
						if _, ok := r.(killed); !ok {
							panic(r)
						}
					}
				}()
				w.run(t.Context(), t, w.daemon(), 10*time.Minute)
				return true
			}()
			w.before = returns
			w.run(t.Context(), t, w.daemon(), 20*time.Minute)
			if alive && (len(w.moved) > 0 || len(w.pods) != 1) {
				t.Errorf("killed before call %d of a living pod: %v, %v: %s", at, w.pods, w.moved, w.has())
			}
			if strings.Contains(w.has(), "write failed") {
				t.Errorf("killed before call %d: %s", at, w.has())
			}
			if !alive && len(w.pods)+len(w.moved)+len(w.Entries()) > 0 {
				t.Errorf("killed before call %d of a dead pod: %v, %v, %v", at, w.pods, w.moved, w.Entries())
			}
			if ended {
				break
			}
		}
	}
}

// TestBreaker shows that an open breaker stops moves and cleans of other pods, and that a resume ends that.
func TestBreaker(t *testing.T) {
	w := newWorld(one, two)
	w.before = func(call string) {
		if call == "scan 1+1" {
			w.returns()
		}
	}
	d := w.daemon()
	w.run(t.Context(), t, d, 20*time.Minute)
	if _, ok := w.pods[two]; !ok || len(w.moved) > 0 || !w.pods[one].alive {
		t.Fatalf("the breaker is open: %v, %v", w.pods, w.moved)
	}
	w.before = func(string) {}
	w.Apply(judge.Event{Kind: judge.EventResumed})
	w.run(t.Context(), t, d, 20*time.Minute)
	if _, ok := w.pods[two]; ok || len(w.moved) > 0 {
		t.Errorf("the breaker is closed: %v, %v", w.pods, w.moved)
	}
}

// TestMany has a hundred pods that the kubelet reports at once (-v=5), one of which returns right after its move: no other
// batch is moved, nothing is cleaned, and after a resume all others go.
func TestMany(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		uid := parsers.PodUID(fmt.Sprintf("0badf00d-0001-4aaa-8bbb-%012d", i))
		w.pods[uid] = &pod{uid: uid, ino: uint64(i) + 1}
	}
	back := parsers.PodUID("0badf00d-0001-4aaa-8bbb-000000000040")
	d := w.daemon()
	w.verbose = true
	w.before = func(call string) {
		if strings.HasPrefix(call, "scan") {
			for _, p := range w.moved {
				p.alive = p.uid == back
			}
		}
	}
	w.run(t.Context(), t, d, 2*time.Hour)
	if in, moved := len(w.pods), len(w.moved); in != 100-2*mostMoves+1 || moved != 2*mostMoves-1 || w.count("write cleaning") > 0 {
		t.Errorf("%d pods in place, %d in quarantine, %d cleaned", in, moved, w.count("write cleaning"))
	}
	w.Apply(judge.Event{Kind: judge.EventResumed})
	w.run(t.Context(), t, d, time.Hour)
	if len(w.pods) != 1 || w.pods[back] == nil || len(w.moved) > 0 {
		t.Errorf("after the resume: %v, %v", w.pods, w.moved)
	}
}

// TestResultsNeedLedger has two batches, and a ledger that cannot be written when the first is moved: without a result the scan
// right after the move restores nothing, so the second batch is not moved in this pass.
func TestResultsNeedLedger(t *testing.T) {
	w := newWorld()
	for i := range 2 * mostMoves {
		uid := parsers.PodUID(fmt.Sprintf("0badf00d-0001-4aaa-8bbb-%012d", i))
		w.pods[uid] = &pod{uid: uid, ino: uint64(i) + 1}
	}
	d := w.daemon()
	w.verbose = true
	d.Ended = func(_ uint64, s Status, _ error) {
		if moved := len(w.moved); w.fail != "" && moved > mostMoves {
			t.Errorf("%d pods were moved in one pass: %v", moved, s.Problems)
		}
	}
	w.fail = "quarantined"
	w.run(t.Context(), t, d, 70*time.Second)
	if len(w.moved) == 0 {
		t.Fatal("nothing was moved")
	}
	w.fail = ""
	w.run(t.Context(), t, d, 10*time.Minute)
	if len(w.pods)+len(w.moved)+len(w.Entries()) > 0 {
		t.Errorf("left: %v, %v, %v", w.pods, w.moved, w.Entries())
	}
}

// TestSchedule has when passes are due, in the order of the constants in daemon.go.
func TestSchedule(t *testing.T) {
	w := newWorld(one, two)
	w.pods[one].alive, w.pods[two].alive = true, true
	d := w.daemon()
	if d.Due() > w.now.Boot {
		t.Error("no pass is due at the start")
	}
	turn := func(what string, want time.Duration) {
		t.Helper()
		if err := d.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if due := d.Due() - w.now.Boot; due != want {
			t.Errorf("%s: the next pass is due in %s, want %s", what, due, want)
		}
	}
	report := func(what string, uid parsers.PodUID, want time.Duration) {
		t.Helper()
		w.report(d, uid)
		if due := d.Due() - w.now.Boot; due != want {
			t.Errorf("%s: a pass is due in %s, want %s", what, due, want)
		}
	}
	later := func(by time.Duration) { w.now = w.now.Add(by) }

	turn("nothing waits", otherwise)
	w.Apply(judge.Event{Kind: judge.EventBreaker})
	turn("the circuit breaker is open", whileWaiting)
	w.Apply(judge.Event{Kind: judge.EventResumed})
	turn("it is closed", otherwise)
	later(time.Minute)
	report("a new report", one, afterReport)
	later(afterReport)
	turn("a living pod is reported", whileReported)
	later(300 * time.Millisecond)
	report("a report right after a pass", two, betweenScans-300*time.Millisecond)
	later(betweenScans)
	w.pods[one].alive, w.pods[one].mounted = false, true
	turn("a kept pod is reported", whileReported)
	later(2 * time.Second)
	report("a repeated report of a pod that is kept", one, whileReported-2*time.Second)
	w.pods[one].mounted = false
	turn("a pod waits", whileWaiting)
	later(2 * time.Second)
	report("a repeated report of a pod that waits", one, whileWaiting-2*time.Second)
	later(53 * time.Second)
	report("the hold ends before the next scan", one, whileWaiting-55*time.Second)
	turn("the hold ends in 5 s", 5*time.Second)
	w.fail = "moving"
	later(6 * time.Second)
	turn("the ledger is full", whileWaiting)
	w.fail = ""
	turn("moved, and it is in confirm", whileWaiting)
	later(5 * time.Minute)
	turn("confirm has ended", otherwise)

	w.pods[one] = &pod{uid: one, ino: 9}
	w.Apply(judge.Event{Kind: judge.EventRestored, UID: one, At: w.now})
	turn("it was alive once", otherwise)
	later(2 * time.Minute)
	report("restored before, and in the tenfold hold", one, afterReport)
	later(betweenScans)
	turn("it waits", whileWaiting)
	later(2 * time.Second)
	report("a repeated report in the tenfold hold", one, whileWaiting-2*time.Second)
}

// TestHints has lines that are no report, of another process: they ask for a scan, since a kubelet may have just started, but
// for one in ten seconds, however many there are.
func TestHints(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	w.kubelet = 101
	w.run(t.Context(), t, d, 10*time.Minute)
	scans := w.count("scan 0+0")
	if scans < 50 || scans > 70 || w.has() != "" {
		t.Errorf("%d scans in ten minutes: %s", scans, w.has())
	}
}

// TestBreakerStopsCleans has two pods whose confirm time ends with the same scan, which shows that one of them is alive: that
// one is restored, and the other is not cleaned.
func TestBreakerStopsCleans(t *testing.T) {
	w := newWorld(one, two)
	w.verbose = true
	d := w.daemon()
	w.run(t.Context(), t, d, 70*time.Second)
	if len(w.moved) != 2 {
		t.Fatalf("not moved: %s", w.has())
	}
	w.now = w.now.Add(5 * time.Minute)
	w.returns()
	if err := d.Turn(t.Context()); err != nil || w.pods[one] == nil || len(w.moved) != 1 || w.count("write cleaning") > 0 {
		t.Errorf("%v: %s", err, w.has())
	}
}

// TestGivesWay has two pods to clean, the first of which takes longer than the slice: the next pass follows at once and
// cleans the second.
func TestGivesWay(t *testing.T) {
	w := newWorld(one, two)
	w.verbose = true
	d := w.daemon()
	w.run(t.Context(), t, d, 70*time.Second)
	w.now = w.now.Add(5 * time.Minute)
	w.before = func(call string) {
		if strings.HasPrefix(call, "clean") {
			w.now = w.now.Add(2 * cleanSlice)
		}
	}
	for left := 1; left >= 0; left-- {
		if err := d.Turn(t.Context()); err != nil || len(w.moved) != left || left > 0 && d.Due() > w.now.Boot {
			t.Errorf("%v, %d left, due in %s: %s", err, len(w.moved), d.Due()-w.now.Boot, w.has())
		}
	}
}

// TestWithdrawnNeedsLedger has two pods in one batch, one of which is alive at the recheck, and a ledger that cannot be written
// any more: the other one is not moved, and it is moved when there is space.
func TestWithdrawnNeedsLedger(t *testing.T) {
	w := newWorld(one, two)
	w.verbose = true
	d := w.daemon()
	w.before = func(call string) {
		if call == "scan 2+0" {
			w.pods[one].alive = true
			w.fail = "not-moved"
		}
	}
	w.run(t.Context(), t, d, 3*time.Minute)
	if calls := w.has(); !strings.Contains(calls, "scan 2+0; write not-moved") || strings.Contains(calls, "quarantine") {
		t.Errorf("%s", calls)
	}
	w.before, w.fail = func(string) {}, ""
	w.run(t.Context(), t, d, 3*time.Minute)
	if w.pods[one] == nil || w.pods[two] != nil {
		t.Errorf("%v: %s", w.pods, w.has())
	}
}

// TestReturnsWhileOthersMove has an entry to clean and a pod to move in one pass. If the entry's pod returns during the move, it
// is restored and not cleaned. If it does not, the next pass cleans it within a second.
func TestReturnsWhileOthersMove(t *testing.T) {
	for _, returns := range []bool{true, false} {
		w := newWorld(one, two)
		w.verbose = true
		w.pods[two].mounted = true
		d := w.daemon()
		w.run(t.Context(), t, d, 70*time.Second)
		w.pods[two].mounted = false
		w.Folded.Breaker = &judge.Event{}
		w.run(t.Context(), t, d, 10*time.Minute)
		w.Folded.Breaker, w.calls = nil, nil
		w.before = func(call string) {
			if returns && call == "quarantine "+string(two) {
				w.returns()
			}
		}
		if err := d.Turn(t.Context()); err != nil || w.pods[two] != nil || w.count("write cleaning") > 0 || d.Due()-w.now.Boot > time.Second {
			t.Fatalf("%v, due in %s: %s", err, d.Due()-w.now.Boot, w.has())
		}
		w.now = w.now.Add(time.Second)
		if err := d.Turn(t.Context()); err != nil || (w.pods[one] != nil) != returns || (w.count("write cleaning") > 0) == returns {
			t.Errorf("%v: %s", err, w.has())
		}
	}
}

// TestMovedUnsynced has a move after which the disk could not sync, so that its result is failed. The pod is judged like every
// quarantined pod: it is restored at once if it is alive, and cleaned if it is not.
func TestMovedUnsynced(t *testing.T) {
	for _, alive := range []bool{true, false} {
		w := newWorld(one)
		w.unsynced = true
		d := w.daemon()
		w.before = func(call string) {
			if alive && call == "write failed" {
				w.returns()
			}
		}
		w.run(t.Context(), t, d, map[bool]time.Duration{true: 70 * time.Second, false: 10 * time.Minute}[alive])
		if w.count("write failed") != 1 || (w.pods[one] != nil) != alive || len(w.moved)+len(w.Entries()) > 0 {
			t.Errorf("alive %t: %v, %v: %s", alive, w.pods, w.moved, w.has())
		}
	}
}

// TestRestoreNeedsLedger has a pod that is alive right after its move, and a ledger that is full: it is not restored without an
// intent, nothing else is moved or cleaned, and it is restored when there is space.
func TestRestoreNeedsLedger(t *testing.T) {
	w := newWorld(one, two)
	d := w.daemon()
	w.fail = "restoring"
	w.before = func(call string) {
		if call == "scan 1+1" {
			w.returns()
		}
	}
	w.run(t.Context(), t, d, 20*time.Minute)
	if calls := w.has(); strings.Contains(calls, "restore ") || strings.Contains(calls, "clean") || w.pods[two] == nil {
		t.Errorf("%s", calls)
	}
	w.fail = ""
	w.run(t.Context(), t, d, time.Minute)
	if w.pods[one] == nil {
		t.Errorf("not restored: %s", w.has())
	}
}

// TestClock: a wall clock that is set forward in small steps is noticed as if by one.
func TestClock(t *testing.T) {
	w := newWorld(one)
	p := &pass{Loop: w.daemon().Loop}
	for _, test := range []struct {
		ahead time.Duration // since the scan before
		set   bool
	}{{0, false}, {9 * time.Second, false}, {9 * time.Second, true}, {-time.Hour, false}, {9 * time.Second, false}, {2 * time.Second, true}} {
		w.now = w.now.Add(time.Minute)
		w.now.Wall = w.now.Wall.Add(test.ahead)
		if in := p.input(judge.Snapshot{}); (in.ClockSet == w.now) != test.set {
			t.Errorf("%+v: the clock was set at %+v, and it is %+v", test, in.ClockSet, w.now)
		}
	}
}

// TestHeldUp has a disk hold up two renames: what was read before them is too old then.
func TestHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(one, two)
		d := w.daemon()
		tries := 0
		w.before = func(call string) {
			if !strings.HasPrefix(call, string(judge.Quarantine)+" ") {
				return
			}
			if tries++; tries == 1 {
				time.Sleep(recheckAge + time.Second)
			}
		}
		w.verbose = true
		w.run(t.Context(), t, d, 10*time.Minute)
		if tries != 4 || len(w.pods) > 0 { // none of the first two is carried out
			t.Errorf("%d renames were tried, left: %v", tries, w.pods)
		}
	})
}
