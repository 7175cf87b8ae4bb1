package reaper

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// TestOrders has an operator's purge, and what stops it before its intent is written.
func TestOrders(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"granted", func(*world) {}, "scan 1+1; write purging; purge " + string(one) + "; write removed"},
		{"mounts are not visible", func(w *world) { w.blind = true }, "scan 1+1"},
		{"the result of another step cannot be written", func(w *world) {
			w.Apply(judge.Event{Kind: judge.EventMoving, UID: two, Entry: string(two) + ".1", ID: judge.FileID{Ino: 2}})
			w.fail = "not-moved"
		}, "write not-moved; scan 1+1"},
	} {
		w := newWorld(two)
		entry := string(one) + ".1"
		for _, kind := range []judge.EventKind{judge.EventMoving, judge.EventQuarantined, judge.EventCleaning, judge.EventCleaned} {
			w.Apply(judge.Event{Kind: kind, UID: one, Entry: entry, ID: judge.FileID{Ino: 1}})
		}
		w.moved[entry] = &pod{uid: one, ino: 1}
		test.change(w)
		_, err := w.daemon().Purge(t.Context(), []parsers.PodUID{one}, nil)
		if purged := w.moved[entry] == nil; w.has() != test.want || (err == nil) != purged {
			t.Errorf("%s: %s, want %s; %v", test.name, w.has(), test.want, err)
		}
	}
}
