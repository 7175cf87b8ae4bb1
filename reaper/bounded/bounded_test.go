package bounded

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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
		if _, err := Within(t.Context(), &g, "a", time.Second, hang); !errors.Is(err, ErrStuck) {
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

// TestAbandoned: the goroutine of work that was abandoned ends with the work. A bubble fails if one is left.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		release := make(chan struct{})
		if _, err := Within(t.Context(), &g, "a", time.Minute, func() int { <-release; return 1 }); !errors.Is(err, ErrHangs) {
			t.Error(err)
		}
		close(release)
	})
}

// TestTry: the error of the work, or why it was abandoned.
func TestTry(t *testing.T) {
	var g Guard
	if v, err := Try(t.Context(), &g, "a", func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	wrong := errors.New("wrong")
	if _, err := Try(t.Context(), &g, "a", func() (int, error) { return 0, wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release := make(chan struct{})
	defer close(release)
	if _, err := Try(ctx, &g, "a", func() (int, error) { <-release; return 0, nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
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
