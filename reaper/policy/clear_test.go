package policy

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestClearLedger checks the entry's phase after each result of a clear, and that recovery closes what a crash left
// open.
func TestClearLedger(t *testing.T) {
	s := deadScene()
	a := Action{Kind: Clear, UID: testUID, Entry: "e.leaf", ID: s.ev.ID, Leaf: testLeaf}
	made := DirID{7, 8, 9}
	left := []Residue{{Path: testLeaf, Class: contents.ClassData, Entries: 2}}
	for _, tc := range []struct {
		out   Outcome
		phase Phase
	}{
		{Outcome{Action: a, Result: Done, ID: made, Left: left}, PhaseConfirmed},
		{Outcome{Action: a, Result: Gone}, PhaseGone},
		{Outcome{Action: a, Result: Refused}, PhaseGone},
		{Outcome{Action: a, Result: Failed}, PhaseClearing},
	} {
		states := map[string]*EntryState{}
		Fold(states, Intent(a, s.node, s.now))
		e := states[a.Entry]
		if e.Phase != PhaseClearing || !e.Phase.Intent() || e.Leaf != testLeaf || e.ID != (DirID{}) {
			t.Fatalf("after the intent: %+v", e)
		}
		for _, r := range Recorded(tc.out, s.node, s.now) {
			Fold(states, r)
		}
		if e.Phase != tc.phase {
			t.Errorf("%s: %s, want %s", tc.out.Result, e.Phase, tc.phase)
		}
		if tc.out.Result != Done {
			continue
		}
		if e.ID != made || len(e.Left) != 1 || e.Leaf != testLeaf {
			t.Errorf("cleared: %+v", e)
		}
		if _, ephemeral := PurgeIn(*e, s.rules, s.now, false); ephemeral {
			t.Error("the contents of a cleared leaf are purged automatically")
		}
		// A failed put-back leaves the entry unchanged.
		b := putBack(tc.out, Evidence{}, nil)
		Fold(states, Intent(b, s.node, s.now))
		for _, r := range Recorded(Outcome{Action: b, Result: Partly, ID: made, Left: left}, s.node, s.now) {
			Fold(states, r)
		}
		if b.Leaf != testLeaf || b.ID != made || e.Phase != PhaseConfirmed {
			t.Errorf("after the failed put-back %+v: %+v", b, e)
		}
	}
	e := EntryState{Entry: a.Entry, UID: testUID, Phase: PhaseClearing, Leaf: testLeaf}
	if r, b := Recover(e, false, s.now); r == nil || r.Kind != KindNotCleared || b != nil {
		t.Errorf("nothing was moved: %+v %+v", r, b)
	}
	if r, b := Recover(e, true, s.now); r != nil || b == nil || b.Kind != PutBack || b.Leaf != testLeaf || b.ID != (DirID{}) {
		t.Errorf("something was moved: %+v %+v", r, b)
	}
}

// TestPutBackClearedOnce checks that a sign of life within the confirm time, in the same boot, puts the contents of a
// cleared leaf back, and that a failed put-back is not repeated: its obstacle is still there at the next look.
func TestPutBackClearedOnce(t *testing.T) {
	s := deadScene()
	s.rules.Confirm = 5 * time.Minute
	for name, tt := range map[string]struct {
		begun    Instant
		decision Decision
		failed   string
		back     bool
	}{
		"a sign of life":      {s.ago(time.Minute), Keep, "", true},
		"doubt":               {s.ago(time.Minute), Wait, "", false},
		"dead":                {s.ago(time.Minute), Reap, "", false},
		"after confirm":       {s.ago(5 * time.Minute), Keep, "", false},
		"in an earlier boot":  {Instant{BootID: "earlier"}, Keep, "", false},
		"it cannot be put in": {s.ago(time.Minute), Keep, "the leaf is gone", false},
	} {
		states := map[string]*EntryState{}
		Fold(states, Record{Kind: KindClearing, Entry: "e", At: tt.begun, Leaf: "volumes/a~b/c"})
		Fold(states, Record{Kind: KindCleared, Entry: "e", At: s.now, Leaf: "volumes/a~b/c", Err: tt.failed})
		a := PutBackCleared(&Judged{Verdict: Verdict{Decision: tt.decision}}, *states["e"], s.rules, s.now)
		if (a != nil) != tt.back {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
