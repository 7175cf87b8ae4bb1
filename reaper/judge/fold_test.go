package judge

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// TestFold plays the events of one entry and has its phase after the last, "" if it is none any more.
func TestFold(t *testing.T) {
	const entry = uid + ".1"
	left := []Residue{{Path: "volumes/x", Class: content.Data}}
	tests := []struct {
		name string
		then []EventKind
		want Phase
	}{
		{"moved", []EventKind{EventMoving, EventQuarantined}, Quarantined},
		{"killed before the result", []EventKind{EventMoving}, Moving},
		{"a move that failed, and may have moved the directory", []EventKind{EventMoving, EventFailed}, Moving},
		{"not moved", []EventKind{EventMoving, EventNotMoved}, ""},
		{"restored", []EventKind{EventMoving, EventQuarantined, EventRestoring, EventRestored}, ""},
		{"not restored", []EventKind{EventMoving, EventQuarantined, EventRestoring, EventNotRestored}, Quarantined},
		{"an operator's restore that failed, after it was cleaned", []EventKind{EventMoving, EventQuarantined, EventCleaning, EventCleaned, EventRestoring, EventNotRestored}, Retained},
		{"cleaned", []EventKind{EventMoving, EventQuarantined, EventCleaning, EventCleaned}, Retained},
		{"a clean that gave way twice and failed", []EventKind{EventMoving, EventQuarantined, EventCleaning, EventCleaning, EventFailed}, Quarantined},
		{"removed", []EventKind{EventMoving, EventQuarantined, EventCleaning, EventRemoved}, ""},
		{"failed", []EventKind{EventMoving, EventQuarantined, EventCleaning, EventFailed}, Quarantined},
		{"removed by another process", []EventKind{EventMoving, EventQuarantined, EventCleaning, "lost"}, ""},
		{"conflict", []EventKind{EventMoving, EventQuarantined, EventConflict}, InConflict},
		{"a conflict of which some cannot be purged", []EventKind{EventMoving, EventQuarantined, EventConflict, EventPurging, EventCleaned}, InConflict},
		{"kept and told", []EventKind{EventMoving, EventQuarantined, EventKept, EventStarted}, Quarantined},
	}
	for _, test := range tests {
		var f Folded
		for i, kind := range test.then {
			e := Event{Kind: kind, UID: uid, Entry: entry, At: now.Add(time.Duration(i) * time.Second), Left: left}
			if kind == "lost" {
				e.Kind, e.Lost = EventFailed, true
			}
			f.Apply(e)
		}
		e := f.Entries[entry]
		moved := now.Add(time.Second) // by the result: the intent was written before the last scan
		if e.Phase != test.want || e.Phase != "" && e.Phase != Moving && e.MovedAt != moved {
			t.Errorf("%s: %+v, want %s", test.name, e, test.want)
		}
	}
}

// TestFoldNode has the events about a restored pod and the breaker.
func TestFoldNode(t *testing.T) {
	var f Folded
	for range 2 {
		f.Apply(Event{Kind: EventRestored, UID: uid, Entry: "e"})
	}
	if r := f.Restored[uid]; r.Times != 2 || r.Operator {
		t.Errorf("alive twice: %+v", r)
	}
	f.Apply(Event{Kind: EventRestored, UID: uid, Entry: "e", Operator: true, Other: uid + ".2"})
	if r := f.Restored[uid]; r.Times != 2 || !r.Operator || f.Entries[uid+".2"].Phase != InConflict {
		t.Errorf("by an operator: %+v, %+v", r, f.Entries)
	}
	f.Apply(Event{Kind: EventReleased, UID: uid})
	if r := f.Restored[uid]; r.Times != 2 || r.Operator {
		t.Errorf("released, and it was alive twice: %+v", r)
	}
	f.Apply(Event{Kind: EventRestored, UID: "p", Entry: "e", Operator: true})
	f.Apply(Event{Kind: EventReleased, UID: "p"})
	if _, ok := f.Restored["p"]; ok {
		t.Error("a released pod is still kept")
	}
	f.Apply(Event{Kind: EventRestored, UID: "q", Entry: "e"})
	f.Apply(Event{Kind: EventReleased, UID: "q"})
	if r := f.Restored["q"]; r.Times != 1 {
		t.Errorf("released, and it was alive once: %+v", r)
	}
	f.Apply(Event{Kind: EventBreaker, UID: uid})
	if f.Breaker == nil {
		t.Error("the breaker is closed")
	}
	if f.Apply(Event{Kind: EventResumed}); f.Breaker != nil {
		t.Error("the breaker is open")
	}
}

// TestRetention has an entry that is cleaned a second time, after retention: retention runs from the first time.
func TestRetention(t *testing.T) {
	var f Folded
	for i, kind := range []EventKind{EventMoving, EventQuarantined, EventCleaning, EventCleaned, EventCleaning, EventCleaned} {
		f.Apply(Event{Kind: kind, UID: uid, Entry: "e", At: now.Add(time.Duration(i) * time.Hour)})
	}
	if at := f.Entries["e"].ConfirmedAt; at != now.Add(3*time.Hour) {
		t.Errorf("confirmed at %v", at)
	}
}

// TestFailures counts the failed cleans in a row, by which the next try is later.
func TestFailures(t *testing.T) {
	var f Folded
	for i, kind := range []EventKind{EventMoving, EventQuarantined, EventCleaning, EventFailed, EventCleaning, EventFailed, EventCleaning, EventCleaned} {
		e := Event{Kind: kind, UID: uid, Entry: "e", Err: "x"}
		if i == 3 { // the second that fails removes nothing
			e.Taken = map[string]Tally{"skeleton": {Entries: 1}}
		}
		f.Apply(e)
		if e := f.Entries["e"]; e.Partly != (i >= 3) {
			t.Errorf("after event %d: partly removed: %t", i, e.Partly)
		}
		if n, want := f.Entries["e"].Failures, map[int]int{3: 1, 4: 1, 5: 2, 6: 2}[i]; n != want {
			t.Errorf("after event %d: %d failures, want %d", i, n, want)
		}
	}
}
