package progress

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestNobodyWaits: in the daemon counting costs no memory, and nothing breaks without a Work.
func TestNobodyWaits(t *testing.T) {
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		w := From(ctx)
		w.Begin("looking", "file", 3)
		w.Add(1)
		w.End()
	})
	if allocs != 0 || From(ctx) != nil {
		t.Errorf("%v allocations where nobody waits", allocs)
	}
}

// TestPhases: each phase counts for itself, whoever counts, and its end is reported with its counts.
func TestPhases(t *testing.T) {
	var ended []string
	w := New(time.Now, func(p *Phase) {
		ended = append(ended, fmt.Sprintf("%s %d/%d %s", p.What, p.Done(), p.Total, p.Unit))
	})
	w.Add(5) // before the first phase
	w.End()
	ctx := With(context.Background(), w)
	From(ctx).Begin("look", "", 0)
	From(ctx).Begin("sweep", "file", 900)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				From(ctx).Add(1)
			}
		})
	}
	wg.Wait()
	w.End()
	w.End()
	if want := []string{"look 0/0 ", "sweep 800/900 file"}; !slices.Equal(ended, want) {
		t.Errorf("%q, want %q", ended, want)
	}
}
