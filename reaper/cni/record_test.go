package cni

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestRestoredBounded checks that some of many files of each kind are listed, a failure always among them, and that
// all are counted. The record has the sum and the first error.
func TestRestoredBounded(t *testing.T) {
	var done Restored
	for i := range 5 * MostRestored {
		o := File{Kind: Cache, Dir: "/d", Name: fmt.Sprint(i), ID: FileID{Size: 10}, Result: policy.Done}
		switch {
		case i >= 4*MostRestored:
			o.Result, o.Err = policy.Refused, "another file is there"
		case i >= 3*MostRestored:
			o.Result = policy.Gone
		}
		done.Add([]File{o})
	}
	listed := map[policy.Result]int{}
	for _, o := range done.Outcomes {
		listed[o.Result]++
	}
	if listed[policy.Done] != MostRestored || listed[policy.Refused] != MostRestored || len(listed) != 2 {
		t.Errorf("listed %v", listed)
	}
	if done.Done != 3*MostRestored || done.Gone != MostRestored || done.Failed != MostRestored || done.All() != 5*MostRestored || done.More() != 3*MostRestored {
		t.Errorf("counted %d, %d, %d, %d more", done.Done, done.Gone, done.Failed, done.More())
	}
	r := done.Record("cni-1", policy.Instant{})
	if r.Kind != policy.KindCNIRestored || r.Archive != "cni-1" || r.Taken[string(Cache)] != (policy.Tally{Entries: 3 * MostRestored, Bytes: 30 * MostRestored}) ||
		!strings.HasPrefix(r.Err, "/d/4000: another file is there (and 999 more)") {
		t.Errorf("record %+v", r)
	}
}
