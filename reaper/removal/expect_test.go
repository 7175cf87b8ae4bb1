package removal

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestExpect: as much is expected as is removed, and each removal counts for who waits. An entry that is
// not there is no failure.
func TestExpect(t *testing.T) {
	_, r, a := quarantined(t, false, contents.TakeAll, fullPod...)
	a.Kind = policy.Purge
	var done, total int64
	w := progress.New(func(ended, _ *progress.Phase) {
		if ended != nil {
			done, total = ended.Counts()
		}
	})
	ctx := progress.With(t.Context(), w)
	w.Begin("removing", "entry", 0)
	r.Expect(ctx, []string{a.Entry, "not-there"})
	out := r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a}})[0]
	w.End()
	var taken policy.Tally
	for _, tally := range out.Taken {
		taken.Add(tally)
	}
	if out.Result != policy.Done || total < int64(len(fullPod)) || total != taken.Entries || done != total {
		t.Errorf("%v: expected %d, counted %d, removed %d: %s", out.Result, total, done, taken.Entries, out.Err)
	}
	r.Expect(t.Context(), []string{a.Entry}) // nobody waits
}

// TestExpectConfined: the thread that counts is under Landlock. Where the kernel refuses that, nothing is read.
func TestExpectConfined(t *testing.T) {
	_, r, a := quarantined(t, false, contents.TakeAll, fullPod...)
	needLandlock(t, r)
	var total int64
	w := progress.New(func(ended, _ *progress.Phase) {
		if ended != nil {
			_, total = ended.Counts()
		}
	})
	ctx := progress.With(t.Context(), w)
	for _, confined := range []bool{true, false} {
		if !confined {
			testkit.Set(r.run, "handled", uint64(1)<<62) // a right that no kernel knows
		}
		w.Begin("removing", "entry", 0)
		r.Expect(ctx, []string{a.Entry})
		w.End()
		if (total > 0) != confined {
			t.Errorf("confined %v: expected %d", confined, total)
		}
	}
}
