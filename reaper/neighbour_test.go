package reaper

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// fakeNeighbour records its turns and saves their number.
type fakeNeighbour struct {
	turns   []Turn
	due     time.Duration
	pending bool
}

type fakeTurned struct {
	n     *fakeNeighbour
	count int
}

func (f *fakeNeighbour) Turn(_ context.Context, t Turn) Turned {
	f.turns = append(f.turns, t)
	return fakeTurned{f, 1}
}

func (t fakeTurned) Due() (time.Duration, bool) { return t.n.due, t.n.pending }
func (t fakeTurned) Problems() []string         { return []string{"a directory of the neighbour"} }
func (t fakeTurned) After(earlier Turned) Turned {
	return fakeTurned{t.n, t.count + countOf(earlier)}
}
func (t fakeTurned) Memory() json.RawMessage { return fmt.Appendf(nil, "%d", len(t.n.turns)) }

func countOf(t Turned) int {
	f, _ := t.(fakeTurned)
	return f.count
}

// TestNeighbour checks that the neighbour has a turn when one is due and in each pass that removes a pod, that it
// receives the pass's results and its own saved state, also in another process, and that a dry run saves nothing.
func TestNeighbour(t *testing.T) {
	n, f := newFakeNode(), &fakeNeighbour{due: time.Hour}
	n.add(1, nil)
	begin := func() *Reaper {
		r := n.reaper(t, testRules)
		r.CNI = f
		return r
	}
	r := begin()
	if rep, err := r.Pass(t.Context(), Options{DryRun: true, CNI: true}); err != nil || len(f.turns) != 1 || !f.turns[0].DryRun || n.files["holds"] != nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	r = begin()
	rep, err := r.Pass(t.Context(), Options{CNI: true, Claims: []reported.Claim{n.claim(1)}})
	if err != nil || len(f.turns) != 2 || f.turns[1].Memory != nil || f.turns[1].Node.MayEnforce.Truth != policy.Yes || f.turns[1].Rules != testRules {
		t.Fatalf("%+v, %v", f.turns, err)
	}
	if !slices.Contains(rep.Look.Errors, "a directory of the neighbour") {
		t.Errorf("the errors are %q", rep.Look.Errors)
	}
	n.pass(rep.Next)
	if rep = mustPass(t, r); rep.CNI != nil || len(f.turns) != 2 {
		t.Errorf("the neighbour had a turn that was not due: %+v", rep.CNI)
	}
	n.pass(rep.Next)
	if rep = mustPass(t, begin()); rep.CNI == nil || len(f.turns) != 3 || string(f.turns[2].Memory) != "2" {
		t.Errorf("no turn after a pod was removed, or no saved state: %+v", f.turns)
	}
	r = begin()
	r.unwritten = &policy.Record{Kind: policy.KindBreaker}
	n.fullAt = n.appends + 1
	if _, err := r.Pass(t.Context(), Options{CNI: true, Only: nil}); err != nil || !f.turns[3].Stopped {
		t.Errorf("the neighbour did not receive the open breaker: %v", err)
	}
}

// TestNeighbourDue checks that the next pass is due when the neighbour's turn is, if that turn can change something.
func TestNeighbourDue(t *testing.T) {
	for _, pending := range []bool{true, false} {
		n := newFakeNode()
		r := n.reaper(t, testRules)
		r.CNI = &fakeNeighbour{due: time.Second, pending: pending}
		if rep, err := r.Pass(t.Context(), Options{CNI: true}); err != nil || rep.Pending != pending || pending && rep.Next != time.Second {
			t.Errorf("pending %t: next %s, pending %t, %v", pending, rep.Next, rep.Pending, err)
		}
	}
}

// TestNeighbourDoesNotRepeat checks that the neighbour does not have a turn at every look of a sweep that waits for
// pods, and that the report adds its turns up.
func TestNeighbourDoesNotRepeat(t *testing.T) {
	n, f := newFakeNode(), &fakeNeighbour{due: time.Hour}
	n.add(1, nil)
	r := n.reaper(t, testRules)
	r.CNI = f
	passes := 0
	rep, err := r.Sweep(t.Context(), SweepOptions{
		Read:     func(context.Context) []reported.Claim { return n.reports() },
		Sleep:    func(_ context.Context, d time.Duration) error { n.pass(d); return nil },
		Progress: func(Report, time.Duration) { passes++ },
	})
	if err != nil || len(n.quarantine) != 0 || passes < 2 {
		t.Fatalf("%v; %d passes", err, passes)
	}
	if len(f.turns) != 2 || countOf(rep.CNI) != 2 { // at the start and after the removal
		t.Errorf("%d turns, %+v", len(f.turns), rep.CNI)
	}
}
