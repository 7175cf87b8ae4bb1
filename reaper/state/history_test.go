package state

import (
	"slices"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHistory checks that the ledger returns all records of a pod that is gone, none of another pod, and an intent
// only if it has no outcome.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	appendTo(t, s,
		policy.Record{Kind: policy.KindParking, UID: uid(1), Entry: "a"},
		policy.Record{Kind: policy.KindParked, UID: uid(1), Entry: "a"},
		policy.Record{Kind: policy.KindParked, UID: uid(2), Entry: "b", PodName: string(uid(1))},
		policy.Record{Kind: policy.KindPurging, UID: uid(1), Entry: "a"},
		policy.Record{Kind: policy.KindRemoved, UID: uid(1), Entry: "a"},
		policy.Record{Kind: policy.KindPutting, UID: uid(2), Entry: "b"})
	appendTo(t, s,
		policy.Record{Kind: policy.KindUnmounting, UID: uid(4)}, policy.Record{Kind: policy.KindUnmounted, UID: uid(4)},
		policy.Record{Kind: policy.KindUnmounting, UID: uid(4)}, // the command was killed, and the daemon ran on
		policy.Record{Kind: policy.KindParking, UID: uid(4), Entry: "c"}, policy.Record{Kind: policy.KindParked, UID: uid(4), Entry: "c"})
	kinds := func(s *Store, n int) (ks []policy.Kind) {
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
		if got := kinds(s, 1); len(got) != 2 || got[0] != policy.KindParked || got[1] != policy.KindRemoved {
			t.Errorf("of the pod that is gone: %v", got)
		}
		if got := kinds(s, 2); len(got) != 2 || got[0] != policy.KindParked || got[1] != policy.KindPutting {
			t.Errorf("of the pod that is put back: %v", got)
		}
		if got := kinds(s, 4); !slices.Equal(got, []policy.Kind{policy.KindUnmounted, policy.KindParked}) {
			t.Errorf("of an unmount that was cut short: %v", got)
		}
		if open := s.Unmounting(); len(open) != 1 || open[uid(4)].Kind != policy.KindUnmounting {
			t.Errorf("open unmounts: %v", open)
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
