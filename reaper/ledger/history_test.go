package ledger

import (
	"slices"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHistory checks that the ledger returns all records of a pod that is gone, none of another pod, and an intent
// only if it has no outcome.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	appendTo(t, s,
		judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "a"},
		judge.Event{Kind: judge.EventQuarantined, UID: uid(1), Entry: "a"},
		judge.Event{Kind: judge.EventQuarantined, UID: uid(2), Entry: "b", PodName: string(uid(1))},
		judge.Event{Kind: judge.EventPurging, UID: uid(1), Entry: "a"},
		judge.Event{Kind: judge.EventRemoved, UID: uid(1), Entry: "a"},
		judge.Event{Kind: judge.EventRestoring, UID: uid(2), Entry: "b"})
	appendTo(t, s,
		judge.Event{Kind: judge.EventUnmounting, UID: uid(4)}, judge.Event{Kind: judge.EventUnmounted, UID: uid(4)},
		judge.Event{Kind: judge.EventUnmounting, UID: uid(4)}, // the command was killed, and the daemon ran on
		judge.Event{Kind: judge.EventMoving, UID: uid(4), Entry: "c"}, judge.Event{Kind: judge.EventQuarantined, UID: uid(4), Entry: "c"})
	kinds := func(s *Store, n int) (ks []judge.EventKind) {
		t.Helper()
		rs, err := s.History(uid(n))
		testkit.Must(t, err)
		for _, r := range rs {
			ks = append(ks, r.Kind)
		}
		return ks
	}
	reader, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, reader.Close()) }()
	for _, s := range []*Store{s, reader} {
		if got := kinds(s, 1); len(got) != 2 || got[0] != judge.EventQuarantined || got[1] != judge.EventRemoved {
			t.Errorf("of the pod that is gone: %v", got)
		}
		if got := kinds(s, 2); len(got) != 2 || got[0] != judge.EventQuarantined || got[1] != judge.EventRestoring {
			t.Errorf("of the pod that is restored: %v", got)
		}
		if got := kinds(s, 4); !slices.Equal(got, []judge.EventKind{judge.EventUnmounted, judge.EventQuarantined}) {
			t.Errorf("of an unmount that was cut short: %v", got)
		}
		if got := kinds(s, 3); got != nil {
			t.Errorf("of an unknown pod: %v", got)
		}
	}
	none, err := OpenReadOnly(dir+"/missing", Options{})
	testkit.Must(t, err)
	if rs, err := none.History(uid(1)); rs != nil || err != nil {
		t.Errorf("without a state directory: %v, %v", rs, err)
	}
}
