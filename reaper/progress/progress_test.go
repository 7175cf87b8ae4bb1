package progress

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestNobodyWaits: in the daemon counting costs no memory, and nothing breaks without a Work.
func TestNobodyWaits(t *testing.T) {
	ctx := t.Context()
	if From(ctx) != nil {
		t.Fatal("a Work out of nothing")
	}
	allocs := testing.AllocsPerRun(1000, func() {
		w := From(ctx)
		w.Begin("looking", "file", 3)
		w.Expect(1)
		w.Add(1)
		w.End()
	})
	if allocs != 0 {
		t.Errorf("%v allocations where nobody waits", allocs)
	}
}

// TestPhases: each phase counts for itself, whoever counts, and its end is told with its counts.
func TestPhases(t *testing.T) {
	var told []string
	w := New(func(ended, begun *Phase) {
		if ended != nil {
			done, total := ended.Counts()
			told = append(told, fmt.Sprintf("%s %d/%d %s", ended.What, done, total, ended.Unit))
		}
		if begun != nil {
			told = append(told, "begin "+begun.What)
		}
	})
	w.Add(5) // before the first phase: nobody's
	w.End()
	ctx := With(context.Background(), w)
	From(ctx).Begin("look", "", 0)
	From(ctx).Begin("sweep", "file", 100)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				From(ctx).Add(1)
				From(ctx).Expect(1)
			}
		})
	}
	wg.Wait()
	w.End()
	w.End()
	want := []string{"begin look", "look 0/0 ", "begin sweep", "sweep 800/900 file"}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
