package reaper

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

func (w *world) count(call string) int {
	return strings.Count(strings.Join(w.calls, ";")+";", call+";")
}

// TestKept has a dead pod with a leftover mount: an operator is told once, once more when there is another reason, and once
// by each daemon. An operator's sweep tells nothing, since it prints.
func TestKept(t *testing.T) {
	w := newWorld(one)
	w.pods[one].mounted = true
	d := w.daemon()
	check := func(when string, want int) {
		t.Helper()
		if got := w.count("write kept"); got != want {
			t.Errorf("%s: told %d times, want %d", when, got, want)
		}
	}
	w.run(t.Context(), t, d, 20*time.Minute)
	check("20 minutes", 1)
	w.run(t.Context(), t, w.daemon(), 5*time.Minute)
	check("another daemon", 2)
	if s, err := w.daemon().Pass(t.Context(), Options{Order: true}); err != nil || !s.Operator {
		t.Errorf("%+v, %v", s, err)
	}
	check("a sweep", 2)
	w.pods[one].mounted = false
	w.fail = "moving" // the pod stays where it is
	w.run(t.Context(), t, d, 2*time.Hour)
	w.pods[one].mounted = true
	w.run(t.Context(), t, d, 10*time.Minute)
	check("mounted again, hours later", 3)
	w.quiet = true
	w.before = func(string) { w.now = w.now.Add(time.Second) } // a scan takes some time
	w.run(t.Context(), t, d, 5*time.Hour)
	check("five hours with a scan an hour", 3)

	w = newWorld(one)
	w.pods[one].mounted = true
	w.fail = "kept"
	d = w.daemon()
	w.run(t.Context(), t, d, 5*time.Minute)
	w.fail, w.calls = "", nil
	w.run(t.Context(), t, d, 20*time.Minute)
	check("after the ledger could not be written", 1)
}

// TestRestoredByAnOperator has a pod that an operator restored: it is moved again only when the kubelet has not reported it
// for an hour and then does. The kubelet's silence shows nothing while another pod is kept that hides this one.
func TestRestoredByAnOperator(t *testing.T) {
	for _, test := range []struct{ hidden, deaf, keeps bool }{{false, false, false}, {true, false, true}, {false, true, true}} {
		w := newWorld(one, two)
		w.pods[two].alive = true
		d := w.daemon()
		w.Apply(judge.Event{Kind: judge.EventRestored, UID: two, Operator: true, At: w.now})
		delete(w.pods, one)
		d.LogProblems = func() []string { return map[bool][]string{true: {"cannot read journald"}}[test.deaf] }
		if test.hidden {
			w.pods[one] = &pod{uid: one, ino: 1, mounted: true}
		}
		w.run(t.Context(), t, d, 3*time.Hour)
		if _, restored := w.Restored()[two]; restored != test.keeps || test.deaf != slices.Contains(d.last.Problems, "cannot read journald") {
			t.Errorf("%+v, after three hours without a report: restored %t, %v", test, restored, d.last.Problems)
		}
	}
	w := newWorld(one)
	d := w.daemon()
	w.Apply(judge.Event{Kind: judge.EventRestored, UID: one, Operator: true, At: w.now})
	w.run(t.Context(), t, d, 3*time.Hour)
	if w.has() != "" {
		t.Errorf("the kubelet reports it: %s", w.has())
	}
	w.quiet = true
	w.run(t.Context(), t, d, 55*time.Minute)
	if w.has() != "" {
		t.Errorf("silent for 55 minutes: %s", w.has())
	}
	w.run(t.Context(), t, d, 70*time.Minute)
	if len(d.logs.last) > 0 {
		t.Errorf("reports of two hours ago are remembered: %v", d.logs.last)
	}
	w.quiet = false
	w.run(t.Context(), t, d, 10*time.Minute)
	if got, want := w.has(), "write released; "+moveOne+cleanOne; got != want {
		t.Errorf("silent for two hours, and reported again: %s, want %s", got, want)
	}
}

// TestGone has an entry that another process removes from the quarantine: an error for an operator, once.
func TestGone(t *testing.T) {
	w := newWorld(one)
	w.before = func(call string) {
		if call == "write cleaning" {
			clear(w.moved)
		}
	}
	w.run(t.Context(), t, w.daemon(), time.Hour)
	if got, want := w.has(), moveOne+"; write cleaning; clean "+string(one)+"; write failed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(w.Entries()) > 0 {
		t.Errorf("the ledger still has %v", w.Entries())
	}
}

// TestUnmovable has a quarantine that cannot be used: nothing is tried, the status says why, and it ends by itself.
func TestUnmovable(t *testing.T) {
	w := newWorld(one)
	w.unmovable = errors.New("quarantine and pods directory are on two mounts")
	d := w.daemon()
	var last Status
	d.Ended = func(_ uint64, s Status, _ error) { last = s }
	w.run(t.Context(), t, d, 5*time.Minute)
	if w.has() != "" || last.Stopped == nil || last.Stopped.Reason != judge.CannotMove || !last.Operator ||
		!strings.Contains(strings.Join(last.Problems, "\n"), "two mounts") {
		t.Errorf("%s; %+v, %t, %v", w.has(), last.Stopped, last.Operator, last.Problems)
	}
	w.unmovable = nil
	w.run(t.Context(), t, d, 5*time.Minute)
	if got := w.has(); got != moveOne {
		t.Errorf("%s, want %s", got, moveOne)
	}
}

// TestHidden has what the kubelet does not report because it reports a pod that is kept.
func TestHidden(t *testing.T) {
	w := newWorld(one, two)
	w.pods[one].mounted = true
	d := w.daemon()
	hidden := func() int {
		t.Helper()
		s, err := d.Pass(t.Context(), Options{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		return s.Hidden
	}
	if got := hidden(); got != 0 {
		t.Errorf("nothing is reported: %d", got)
	}
	w.report(d, one)
	if got := hidden(); got != 1 {
		t.Errorf("one pod is reported and kept: %d hidden, want 1", got)
	}
	parse := d.Parse
	d.Parse = func(l parsers.Line) (parsers.Report, bool) {
		r, ok := parse(l)
		r.Kind = parsers.Volumes
		return r, ok
	}
	if w.report(d, two); hidden() != 0 {
		t.Error("a pod is hidden of which the kubelet reports that it has volumes")
	}
	d.Parse = parse
	if w.report(d, two); hidden() != 0 {
		t.Error("a pod is hidden that is reported")
	}
}

// TestBehind has what a kubelet reports after the pod that it reports, which can go.
func TestBehind(t *testing.T) {
	w := newWorld(one, two)
	d := w.daemon()
	for i, report := range []parsers.PodUID{"", one, two} {
		if report != "" {
			w.report(d, report)
		}
		s, err := d.Pass(t.Context(), Options{DryRun: true})
		if want := i % 2; err != nil || s.Behind != want || s.Hidden != 0 { // two that are reported are all that there are
			t.Errorf("%d reported: %d behind, want %d; %d hidden, %v", i, s.Behind, want, s.Hidden, err)
		}
	}
}

// outage is a ledger with three events that the journal has not got, and a journal that refuses the second of them once.
type outage struct {
	*world
	sent    int64
	refuses bool
	got     []int64
}

func (o *outage) Unsent() (unsent []judge.Event) {
	for seq := o.sent + 1; seq <= 3; seq++ {
		unsent = append(unsent, judge.Event{Seq: seq})
	}
	return unsent
}

func (o *outage) Sent(seq int64) error { o.sent = seq; return nil }

func (o *outage) Record(e judge.Event) error {
	if o.refuses && e.Seq == 2 {
		return errors.New("no journal")
	}
	o.got = append(o.got, e.Seq)
	return nil
}

// TestOutage: the journal gets each event once, in order, also if it was away in between.
func TestOutage(t *testing.T) {
	o := &outage{world: newWorld(), refuses: true}
	d := o.daemon()
	d.Ledger, d.Recorder = o, o
	d.record()
	if o.sent != 1 {
		t.Errorf("it counts as sent up to %d", o.sent)
	}
	o.refuses = false
	if d.record(); o.sent != 3 || !slices.Equal(o.got, []int64{1, 2, 3}) {
		t.Errorf("the journal has %v", o.got)
	}
}
