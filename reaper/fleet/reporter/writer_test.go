package reporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// pass returns a look with n pods in which something is mounted.
func pass(look uint64, n int) *report.Report {
	p := &report.Pass{Number: look, Look: policy.Look{At: policy.Instant{Wall: time.Now()}}}
	for i := range n {
		p.Pods = append(p.Pods, policy.Judged{
			Evidence: policy.Evidence{UID: parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)), PodName: fmt.Sprint("pod-", i)},
			Verdict:  policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonMounted, Detail: fmt.Sprint("look ", look)}}},
		})
	}
	return new(report.New(report.Report{Node: "n1"}, p))
}

// try is one attempt to write.
type try struct {
	after time.Duration // since the writer began
	pods  int
	look  uint64
}

// bench is a writer in a bubble of time, whose API server is the function answer.
type bench struct {
	*Writer
	t      *testing.T
	began  time.Time
	tries  []try
	answer func() error
	log    bytes.Buffer
	ended  int
}

// inBubble runs a test of a writer in a synctest bubble. A random part is always the maximum.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, began: time.Now(), answer: func() error { return nil }}
		b.Writer = New(Config{
			Host: "n1", Now: time.Now, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
			Written: func(time.Time) { b.ended++ },
		})
		b.plan.random = func(most time.Duration) time.Duration { return most }
		b.post = func(_ context.Context, r report.Report) error {
			b.tries = append(b.tries, try{time.Since(b.began), len(r.Pods), r.Look})
			return b.answer()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		test(b)
		cancel()
		<-done
	})
}

// wait lets time pass, with all events that are due.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) expect(what string, want ...try) {
	b.t.Helper()
	if fmt.Sprint(b.tries) != fmt.Sprint(want) {
		b.t.Errorf("%s: tried %v, want %v", what, b.tries, want)
	}
	b.tries = nil
}

// TestChanges checks that a change is written soon, that an unchanged report is written once an hour, and that only
// the newest is.
func TestChanges(t *testing.T) {
	inBubble(t, func(b *bench) {
		wait(time.Hour)
		b.expect("before the first look")
		b.Publish(pass(1, 0), nil)
		b.Publish(pass(2, 3), nil)
		wait(time.Minute)
		b.expect("the first report", try{time.Hour + spread, 3, 2})
		for i := range 4 {
			b.Publish(pass(uint64(3+i), 3), nil)
			wait(10 * time.Minute)
		}
		b.expect("nothing has changed")
		b.Publish(pass(7, 3), nil)
		wait(10 * time.Minute)
		b.Publish(pass(8, 3), nil)
		wait(refreshSpread)
		b.expect("an hour later", try{2*time.Hour + time.Minute, 3, 8})
		b.Publish(pass(9, 2), nil)
		wait(2 * time.Minute)
		b.expect("it has changed", try{2*time.Hour + time.Minute + quickGap + spread, 2, 9})
		b.Publish(pass(10, 2), nil)
		b.Publish(nil, errors.New("permission denied"))
		wait(time.Minute)
		if b.newest.Errors[0] != "the node cannot be looked at: permission denied" || len(b.tries) != 1 {
			b.t.Errorf("after a failed look: %+v, %v", b.newest, b.tries)
		}
		b.Publish(nil, errors.New("permission denied"))
		if len(b.newest.Errors) != 1 || len(b.found.Errors) != 0 {
			b.t.Errorf("%q", b.newest.Errors)
		}
		if b.ended != 4 {
			b.t.Errorf("%d writes were recorded", b.ended)
		}
	})
}

// TestPromise checks that changes at any interval cost no more writes than docs/fleet.md promises, that the last
// state is still written soon, and that a change after a quiet time is written at once.
func TestPromise(t *testing.T) {
	const day = 24 * time.Hour
	for gap := time.Second; gap < 5*time.Minute; gap += time.Second {
		s := schedule{random: func(time.Duration) time.Duration { return 0 }}
		start := time.Unix(1e9, 0)
		writes, change, unwritten, latest := 0, start, time.Time{}, time.Duration(0)
		for now := start; now.Sub(start) < day; {
			if !s.due.IsZero() && !s.due.After(change) {
				now = s.due
				latest = max(latest, now.Sub(unwritten))
				s.written(now, 0)
				writes, unwritten = writes+1, time.Time{}
				continue
			}
			now = change
			if unwritten.IsZero() {
				unwritten = now
			}
			s.published(now, true)
			change = change.Add(gap)
		}
		if most := int(day/slowGap) + burst; writes > most || latest > slowGap {
			t.Errorf("a change each %v: %d writes a day, at most %d are promised; a change waited for %v", gap, writes, most, latest)
		}
		last := s.paid.Add(burst * slowGap)
		s.due = time.Time{}
		if s.published(last, true); s.due != last {
			t.Errorf("after a quiet time a change waits for %v", s.due.Sub(last))
		}
	}
}

// TestBusy checks that a slow API server gets no request for the time of 200 writes, mostBack at most.
func TestBusy(t *testing.T) {
	now := time.Unix(1e9, 0)
	for took, want := range map[time.Duration]time.Duration{
		8 * time.Millisecond: quickGap, 100 * time.Millisecond: 20 * time.Second, 4 * time.Second: mostBack,
	} {
		s := schedule{random: func(time.Duration) time.Duration { return 0 }}
		s.written(now, took)
		if s.published(now, true); s.due.Sub(now) != want {
			t.Errorf("after a write of %v it waits for %v, want %v", took, s.due.Sub(now), want)
		}
	}
}

// TestAway checks that an unreachable API server is tried less and less often, whatever changes, and that the log has
// its absence and its return once each.
func TestAway(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.answer = func() error { return errors.New("connection refused") }
		for i := range 12 * 60 { // two hours
			b.Publish(pass(uint64(i), i), nil)
			wait(10 * time.Second)
		}
		for i := 1; i < len(b.tries); i++ {
			pause := b.tries[i].after - b.tries[i-1].after
			if want := min(leastBack<<(i-1), mostBack); pause != want {
				b.t.Errorf("the pause before try %d is %v, want %v", i, pause, want)
			}
		}
		if n := len(b.tries); n < 20 || n > 35 {
			b.t.Errorf("%d tries in two hours", n)
		}
		b.tries, b.answer = nil, func() error { return nil }
		wait(mostBack)
		if len(b.tries) != 1 || b.tries[0].look != 719 {
			b.t.Errorf("after its return: %v", b.tries)
		}
		if text := b.log.String(); strings.Count(text, "cannot write the node's OrphanReport") != 1 || strings.Count(text, "OrphanReport is written") != 1 {
			b.t.Errorf("the log: %s", text)
		}
	})
}

// TestHerd checks that nodes that lost the API server at the same moment do not return at the same moment.
func TestHerd(t *testing.T) {
	now := time.Unix(1e9, 0)
	moments := map[int64]int{}
	for range 5000 {
		s := New(Config{}).plan
		for range 20 {
			s.failed(now, 0)
		}
		moments[s.due.Unix()]++
	}
	for at, n := range moments {
		if wait := at - now.Unix(); n > 100 || wait < int64(mostBack.Seconds()/2)-1 || wait > int64(mostBack.Seconds()) {
			t.Errorf("%d nodes return after %d s", n, wait)
		}
	}
	if len(moments) < 100 {
		t.Errorf("5,000 nodes return in %d different seconds", len(moments))
	}
}

// TestStops checks that the end of the daemon does not wait for an API server.
func TestStops(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.post = func(ctx context.Context, _ report.Report) error { <-ctx.Done(); return ctx.Err() }
		b.Publish(pass(1, 1), nil)
		wait(time.Hour)
	})
}

// TestMark checks which changes cause a write.
func TestMark(t *testing.T) {
	one := func() *report.Report { return pass(1, 2) }
	same, mark := one(), markOf(one())
	same.Look, same.At, same.Pods[0].DueSeconds, same.Pods[0].Why[0].Detail = 9, time.Now(), 7, "something else"
	if markOf(same) != mark || same.Pods[0].Why[0].Detail == "" {
		t.Error("a changed time or detail makes a new report, or is lost")
	}
	for name, change := range map[string]func(*report.Report){
		"mode":    func(r *report.Report) { r.Mode = "observe" },
		"breaker": func(r *report.Report) { r.BreakerOpen = true },
		"missing": func(r *report.Report) { r.Missing = nil },
		"count":   func(r *report.Report) { r.Counts.Quarantine++ },
		"errors":  func(r *report.Report) { r.Errors = []string{"x"} },
		"lacks":   func(r *report.Report) { r.Missing = r.Missing[1:] },
		"pod":     func(r *report.Report) { r.Pods[1].Name = "other" },
		"reason":  func(r *report.Report) { r.Pods[1].Why[0].Reason = policy.ReasonRemade },
		"more":    func(r *report.Report) { r.More++ },
	} {
		r := one()
		if change(r); markOf(r) == mark {
			t.Errorf("a changed %s makes no new report", name)
		}
	}
}
