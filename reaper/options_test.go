package reaper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// TestOptions has a pod whose hold is over, and which pass moves it.
func TestOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		observe bool
		opt     Options
		moves   bool
	}{
		{"the daemon", false, Options{}, true},
		{"a dry run", false, Options{DryRun: true, Order: true}, false},
		{"sweep --no-wait", false, Options{Order: true, NoMoves: true}, false},
		{"the daemon in mode observe", true, Options{}, false},
		{"an operator's sweep in mode observe", true, Options{Order: true}, true},
		{"a sweep of this pod", true, Options{Order: true, Only: []parsers.PodUID{one}}, true},
		{"a sweep of another pod", true, Options{Order: true, Only: []parsers.PodUID{two}}, false},
	} {
		w := newWorld(one)
		d := w.daemon()
		d.Settings.Observe = true
		w.run(t.Context(), t, d, 2*time.Minute)
		d.Settings.Observe = test.observe
		if _, err := d.Pass(t.Context(), test.opt); err != nil {
			t.Fatal(err)
		}
		if moved := w.pods[one] == nil; moved != test.moves {
			t.Errorf("%s: moved: %t: %s", test.name, moved, w.has())
		}
		if _, err := d.Pass(t.Context(), Options{Order: true}); err != nil || w.pods[one] != nil {
			t.Errorf("%s: a sweep after it does not move the pod: %v, %s", test.name, err, w.has())
		}
	}
}

// bubbled runs f in a bubble with a world whose clock is the bubble's, and a kubelet that reports the first dead pod every two
// seconds until ctx ends.
func bubbled(t *testing.T, w *world, f func(ctx context.Context, d *Daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.clock = bubble{time.Now()}.Now
		d := w.daemon()
		lines := make(chan parsers.Line, 16)
		d.Lines = lines
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var mu sync.Mutex // of the world's pods
		var first parsers.PodUID
		w.before = func(call string) {
			if !strings.HasPrefix(call, "scan") {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			first = ""
			for uid, p := range w.pods {
				if !p.alive && (first == "" || uid < first) {
					first = uid
				}
			}
		}
		var kubelet sync.WaitGroup
		kubelet.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				uid := first
				mu.Unlock()
				if uid != "" {
					select {
					case lines <- w.line(uid):
					case <-ctx.Done():
					}
				}
				time.Sleep(2 * time.Second)
			}
		})
		f(ctx, d)
		cancel()
		kubelet.Wait()
	})
}

// TestSweep sweeps two orphans, of which the kubelet reports the second only when the first is gone: it ends when both are
// confirmed dead and cleaned, obeys no mode, and lifts an operator's restore once.
func TestSweep(t *testing.T) {
	w := newWorld(one, two)
	w.Apply(judge.Event{Kind: judge.EventRestored, UID: one, Operator: true})
	bubbled(t, w, func(ctx context.Context, d *Daemon) {
		d.Settings.Observe = true
		passes := 0
		s, err := d.Sweep(ctx, Options{Lift: []parsers.PodUID{one}}, func(Status, time.Duration) { passes++ })
		if err != nil || len(w.pods)+len(w.moved) > 0 {
			t.Errorf("%v, %v, %v: %s", err, w.pods, w.moved, w.has())
		}
		kinds := map[judge.EventKind]int{}
		for _, e := range s.Events {
			kinds[e.Kind]++
		}
		if kinds[judge.EventQuarantined] != 2 || kinds[judge.EventRemoved] != 2 || kinds[judge.EventReleased] != 1 || passes == 0 {
			t.Errorf("%v after %d passes", kinds, passes)
		}
	})
	w = newWorld(one)
	w.pods[one].alive = true
	bubbled(t, w, func(ctx context.Context, d *Daemon) {
		if s, err := d.Sweep(ctx, Options{}, nil); err != nil || len(s.Pods) != 1 || ctx.Err() != nil {
			t.Errorf("nothing to sweep: %v, %v", s, err)
		}
	})
}

// TestSweepEnds: a sweep waits for nothing that may never end: an open circuit breaker, a mount in quarantine.
func TestSweepEnds(t *testing.T) {
	opens := func(w *world) { w.Apply(judge.Event{Kind: judge.EventBreaker, UID: two}) }
	for name, c := range map[string]struct {
		start func(*world)
		moved func(*world)
	}{
		"the breaker is open": {start: opens},
		"the breaker opens":   {moved: opens},
		"mounted":             {moved: func(w *world) { w.text = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(one)
			if c.start != nil {
				c.start(w)
			}
			bubbled(t, w, func(ctx context.Context, d *Daemon) {
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				progress := func(Status, time.Duration) {
					if c.moved != nil && len(w.moved) > 0 {
						c.moved(w)
					}
				}
				if _, err := d.Sweep(ctx, Options{}, progress); err != nil || len(w.pods)+len(w.moved) != 1 {
					t.Errorf("%v: %s", err, w.has())
				}
			})
		})
	}
}

// TestCleanReads has a clean that reads for 10 s before it removes anything, such as one with much data that is kept: it ends,
// although it gives way each second at first.
func TestCleanReads(t *testing.T) {
	w := newWorld(one)
	w.needs = 10 * time.Second
	bubbled(t, w, func(ctx context.Context, d *Daemon) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		d.Run(ctx)
		if n := w.count("clean " + string(one)); len(w.moved) > 0 || n > 6 {
			t.Errorf("tried %d times: %v", n, w.moved)
		}
	})
}

// TestReload turns mode observe on while a clean goes on: it stops.
func TestReload(t *testing.T) {
	w := newWorld(one)
	w.slow = true
	bubbled(t, w, func(ctx context.Context, d *Daemon) {
		reload := make(chan judge.Settings, 1)
		d.Reload = reload
		passes := uint64(0)
		d.Ended = func(pass uint64, s Status, _ error) {
			if passes = pass; s.Now && len(reload) == 0 && s.Mode == "enforce" {
				observe := d.Settings
				observe.Observe = true
				reload <- observe
			}
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
		defer cancel()
		d.Run(ctx)
		if n := w.count("clean " + string(one)); n == 0 || n > 2 || len(w.moved) != 1 {
			t.Errorf("cleaned %d times in %d passes, %v", n, passes, w.moved)
		}
	})
}

// TestRefused has a disk that refuses a move: the next tries are five minutes later, then ten, twenty, and an operator is asked.
func TestRefused(t *testing.T) {
	w := newWorld(one)
	w.refuse = "operation not permitted (it may be immutable)"
	d := w.daemon()
	w.run(t.Context(), t, d, time.Hour) // at 1, 6, 16, 36 minutes, and up to five later: no report of a kept pod starts a scan
	if n := w.count("write moving"); n < 3 || n > 4 || !d.last.Operator {
		t.Errorf("tried %d times: %s", n, w.has())
	}
	w.refuse = ""
	w.run(t.Context(), t, d, 50*time.Minute)
	if w.pods[one] != nil {
		t.Errorf("it is not tried again: %s", w.has())
	}
}

// TestLocked has a ledger that another process locks: the daemon tries again in half a minute, and changes nothing meanwhile.
func TestLocked(t *testing.T) {
	w := newWorld(one)
	w.enter = errors.New("another orphan-reaper is at work")
	d := w.daemon()
	if err := d.Turn(t.Context()); err == nil || len(w.calls) > 0 || d.Due()-w.now.Boot != afterFailure {
		t.Errorf("%v, %v, due in %s", err, w.calls, d.Due()-w.now.Boot)
	}
}

// TestStatic has a static pod that returns right after its move: it is restored, and the breaker stays closed, also if the
// runtime has forgotten meanwhile that the pod is static.
func TestStatic(t *testing.T) {
	w := newWorld(one)
	w.pods[one].static = true
	w.before = func(call string) {
		if call == "scan 1+1" {
			for _, p := range w.moved {
				p.static = false
			}
			w.returns()
		}
	}
	w.run(t.Context(), t, w.daemon(), 10*time.Minute)
	if _, open := w.Breaker(); open || w.pods[one] == nil {
		t.Errorf("open: %t: %s", open, w.has())
	}
}

// TestRecovered has an operator's restore that was killed after its rename: the pod counts as restored by an operator. Where it
// was an exchange, the pod's other directory lies under the entry's name.
func TestRecovered(t *testing.T) {
	for _, other := range []string{"", judge.OtherSuffix} {
		testRecovered(t, other)
	}
}

func testRecovered(t *testing.T, other string) {
	t.Helper()
	w := newWorld(one)
	entry := string(one) + ".1"
	w.pods[one].alive = true
	w.Apply(judge.Event{Kind: judge.EventMoving, UID: one, Entry: entry, ID: judge.FileID{Ino: 1}})
	w.Apply(judge.Event{Kind: judge.EventQuarantined, UID: one, Entry: entry, ID: judge.FileID{Ino: 1}})
	w.Apply(judge.Event{Kind: judge.EventRestoring, UID: one, Entry: entry, Operator: true})
	w.moved[entry+other] = &pod{uid: one, ino: 7}
	w.run(t.Context(), t, w.daemon(), time.Minute)
	e := w.Entries()[entry+other]
	if r := w.Restored()[one]; !r.Operator || e.Phase != judge.InConflict || e.ID.Ino != 7 {
		t.Errorf("%+v, %+v: %s", r, e, w.has())
	}
}

// TestReplacedAndKilled has a directory that took the place of the judged one right before the rename, and a kill right after
// it. It is judged as moved: a living pod gets it back. Without that it would lie in quarantine for ever, in no ledger.
func TestReplacedAndKilled(t *testing.T) {
	w := newWorld()
	entry := string(one) + ".1"
	w.Apply(judge.Event{Kind: judge.EventMoving, UID: one, Entry: entry, ID: judge.FileID{Ino: 1}})
	w.moved[entry] = &pod{uid: one, ino: 7, alive: true}
	w.run(t.Context(), t, w.daemon(), time.Minute)
	if p := w.pods[one]; p == nil || p.ino != 7 || len(w.Entries()) > 0 {
		t.Errorf("%+v, %+v: %s", p, w.Entries(), w.has())
	}
}

// TestCleanedUnwritten has a pod that is alive again after a clean whose result could not be written: the intent gets its
// result. What is left of a clean that was cut short is for an operator, whose orders need that result, too.
func TestCleanedUnwritten(t *testing.T) {
	for left, want := range map[bool]judge.Phase{false: "", true: judge.InConflict} {
		w := newWorld(one)
		w.pods[one].alive = true
		entry := string(one) + ".1"
		for _, kind := range []judge.EventKind{judge.EventMoving, judge.EventQuarantined, judge.EventCleaning} {
			w.Apply(judge.Event{Kind: kind, UID: one, Entry: entry, ID: judge.FileID{Ino: 7}})
		}
		if left {
			w.moved[entry] = &pod{uid: one, ino: 7}
		}
		w.run(t.Context(), t, w.daemon(), 10*time.Second)
		if got := w.Entries()[entry].Phase; got != want {
			t.Errorf("left %t: %q, want %q: %s", left, got, want, w.has())
		}
	}
}

// TestEntryName has two moves of one pod in a millisecond.
func TestEntryName(t *testing.T) {
	now := newWorld().now
	first := entryName(one, now, nil)
	if second := entryName(one, now, map[string]judge.Entry{first: {}}); second == first || !strings.HasPrefix(second, string(one)+".") {
		t.Errorf("%s, %s", first, second)
	}
}

// sweeper counts the CNI sweeps, and the pods of which they were told.
type sweeper struct {
	sweeps, cleaned int
	retention       time.Duration
}

func (*sweeper) Stuck() (path string, since time.Duration) { return "", 0 }

func (s *sweeper) Sweep(_ context.Context, sweep CNISweep) *CNIStatus {
	s.sweeps++
	s.cleaned += len(sweep.Cleaned)
	s.retention = sweep.Retention
	return &CNIStatus{Complete: true}
}

// TestCNI has when CNI's files are swept: at the first pass, after each confirmed pod, hourly, and by an order.
func TestCNI(t *testing.T) {
	w := newWorld(one)
	s := &sweeper{}
	d := w.daemon()
	d.CNI = s
	w.run(t.Context(), t, d, 10*time.Minute)
	if s.sweeps != 2 || s.cleaned != 1 {
		t.Errorf("one pod, ten minutes: %+v", *s)
	}
	d.Settings.Retention = 7 * time.Hour // a reload
	w.run(t.Context(), t, d, 3*time.Hour)
	if s.sweeps != 5 || s.retention != 7*time.Hour {
		t.Errorf("three hours later: %+v", *s)
	}
	if _, err := d.Pass(t.Context(), Options{Order: true}); err != nil || s.sweeps != 6 {
		t.Errorf("by an order: %+v, %v", *s, err)
	}
}

// TestReports has how the kubelet's reports are remembered: the kinds apart, for an hour, and not without end.
func TestReports(t *testing.T) {
	var r reports
	at := newWorld().now
	node := judge.Node{Kubelet: judge.Kubelet{PID: 100, Inner: 100, Unit: "kubelet.service"}, KubeletKnown: judge.Fact{Truth: judge.Yes}}
	add := func(uid parsers.PodUID, kind parsers.Kind, at judge.Instant) bool {
		line := parsers.Line{Whole: true, Journal: &parsers.Journal{Unit: "kubelet.service", PID: 100, BootID: at.BootID, Time: at.Wall}}
		return r.add(judge.Logged{Report: parsers.Report{Line: line, UID: uid, Kind: kind, PID: 100, Header: at.Wall, HeaderZone: true}, At: at}, node, at)
	}
	if !add(one, parsers.Removal, at) || add(one, parsers.Removal, at.Add(2*time.Second)) || !add(one, parsers.Removal, at.Add(33*time.Second)) {
		t.Error("a report is new if the last one counts no more")
	}
	node.Kubelet.Unit = "other.service"
	if !add(one, parsers.Removal, at.Add(35*time.Second)) {
		t.Error("a report is new if the last one is not by the kubelet that runs now")
	}
	node.Kubelet.Unit = "kubelet.service"
	if !add(one, parsers.Volumes, at) || r.last[one].Removal.Kind != parsers.Removal || r.last[one].Volumes.Kind != parsers.Volumes {
		t.Errorf("both kinds: %+v", r.last[one])
	}
	add(two, parsers.Removal, at) // never the other kind
	if r.forget(at.Add(50 * time.Minute)); len(r.last) != 2 {
		t.Error("forgotten after 50 minutes")
	}
	if r.forget(at.Add(2 * time.Hour)); len(r.last) != 0 {
		t.Error("remembered for two hours")
	}
	for i := range mostReported + 10 {
		add(parsers.PodUID(string(rune(i))+"x"), parsers.Removal, at)
	}
	if len(r.last) > mostReported {
		t.Errorf("%d pods", len(r.last))
	}
}

// TestLimit has three dead pods that the kubelet reports at once, and max_per_scan: each scan moves one.
func TestLimit(t *testing.T) {
	w := newWorld(one, two, "0badf00d-0003-4aaa-8bbb-cccc00000003")
	w.verbose = true
	d := w.daemon()
	d.Settings.MaxPerScan = 1
	var moved, left []int
	d.Ended = func(_ uint64, s Status, _ error) {
		n := 0
		for _, e := range s.Events {
			if e.Kind == judge.EventQuarantined {
				n++
			}
		}
		if n > 0 {
			moved, left = append(moved, n), append(left, len(s.Pods))
		}
	}
	w.run(t.Context(), t, d, 150*time.Second) // one hold and two scans: a move does not begin the holds of the others again
	if !slices.Equal(moved, []int{1, 1, 1}) || !slices.Equal(left, []int{2, 1, 0}) {
		t.Errorf("moved in each pass: %v, shown as left: %v", moved, left)
	}
}
