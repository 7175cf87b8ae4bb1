package bounded

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestGuard: one goroutine for each key, however often it is asked for.
func TestGuard(t *testing.T) {
	var g Guard
	release := make(chan struct{})
	running := make(chan struct{}, 10)
	hang := func() int { running <- struct{}{}; <-release; return 1 }
	if _, err := Within(t.Context(), &g, "a", time.Millisecond, hang); !errors.Is(err, ErrHangs) {
		t.Fatalf("a hung part gives %v", err)
	}
	for range 5 {
		if _, err := Within(t.Context(), &g, "a", time.Hour, hang); !errors.Is(err, ErrStuck) {
			t.Fatalf("a part that is stuck gives %v", err)
		}
	}
	if v, err := Within(t.Context(), &g, "b", time.Hour, func() int { return 2 }); v != 2 || err != nil {
		t.Errorf("another part gives %d, %v", v, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Within(ctx, &g, "c", time.Hour, hang); err == nil || err.Error() != "enough" {
		t.Errorf("a part without time gives %v", err)
	}
	<-running
	<-running
	close(release)
	for !g.begin("a") {
		time.Sleep(time.Millisecond)
	}
	if len(running) != 0 {
		t.Errorf("%d more goroutines were begun", len(running))
	}
}

// late is an answer that holds something open.
type late struct{ closed chan struct{} }

func (l late) Discard() { close(l.closed) }

// TestGuardDiscards: what comes too late is closed.
func TestGuardDiscards(t *testing.T) {
	var g Guard
	release, answer := make(chan struct{}), late{make(chan struct{})}
	if _, err := Within(t.Context(), &g, "a", time.Nanosecond, func() late { <-release; return answer }); !errors.Is(err, ErrHangs) {
		t.Fatalf("a hung part gives %v", err)
	}
	close(release)
	<-answer.closed
	release, answer = make(chan struct{}), late{make(chan struct{})}
	g.Patience = time.Nanosecond
	if _, err := Try(t.Context(), &g, "b", func() (late, error) { <-release; return answer, nil }); !errors.Is(err, ErrHangs) {
		t.Fatalf("a hung part gives %v", err)
	}
	close(release)
	<-answer.closed
	g.Patience = time.Hour
	if _, err := Try(t.Context(), &g, "c", func() (late, error) { return late{}, ErrStuck }); !errors.Is(err, ErrStuck) {
		t.Errorf("a part that fails gives %v", err)
	}
}

// TestGuardIsBounded: hung keys are not begun without end.
func TestGuardIsBounded(t *testing.T) {
	var g Guard
	release := make(chan struct{})
	defer close(release)
	begun := 0
	for i := range 2 * mostStuck {
		_, err := Within(t.Context(), &g, fmt.Sprint(i), time.Nanosecond, func() int { <-release; return 0 })
		if errors.Is(err, ErrHangs) {
			begun++
		}
	}
	if begun != mostStuck {
		t.Errorf("%d goroutines hang, want %d", begun, mostStuck)
	}
}

// TestRunner: its work follows one another on one goroutine, but for what hangs, which costs the
// next nothing.
func TestRunner(t *testing.T) {
	r := Runner[int]{Guard: &Guard{}}
	defer r.Close()
	release := make(chan struct{})
	run := func(key string, limit time.Duration, v int, wait <-chan struct{}) (int, error) {
		return r.Within(t.Context(), key, limit, func() int {
			if wait != nil {
				<-wait
			}
			return v
		})
	}
	answers := func(key string, v int) {
		t.Helper()
		if got, err := run(key, time.Hour, v, nil); got != v || err != nil {
			t.Errorf("%s gives %d, %v", key, got, err)
		}
	}
	answers("a", 1)
	jobs := r.jobs
	answers("b", 2)
	if r.jobs != jobs {
		t.Error("what answered has cost a goroutine")
	}
	for _, want := range []error{ErrHangs, ErrStuck} {
		if _, err := run("c", time.Millisecond, 3, release); !errors.Is(err, want) {
			t.Errorf("what hangs gives %v, not %v", err, want)
		}
		answers("a", 4) // and not the 3 that comes late
	}
	close(release)
	for r.Guard.Stuck() > 0 {
		time.Sleep(time.Millisecond)
	}
	answers("c", 5)
}
