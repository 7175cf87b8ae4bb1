package reaper

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMerge: a report of two passes has each pod once, in order, those that the first pass took as it saw them, and
// holds no evidence of a pod twice: ten thousand orphans took 300 MB.
func TestMerge(t *testing.T) {
	pass := func(names string, took ...string) Report {
		var r Report
		for name := range strings.SplitSeq(names, "") {
			r.Pods = append(r.Pods, policy.Judged{Evidence: policy.Evidence{Name: name, UID: parsers.PodUID(name)}})
		}
		for _, name := range took {
			e := policy.Evidence{Name: name}
			r.Outcomes = append(r.Outcomes, policy.Outcome{Action: policy.Action{UID: parsers.PodUID(name), Evidence: &e}})
		}
		return r
	}
	for _, c := range [][3]string{{"ace", "bcd", "abcde"}, {"ace", "c", "ace"}, {"ace", "", "ae"}, {"bce", "acdf", "abcdef"}, {"cd", "abcd", "abcd"}} {
		total := pass(c[0], "a", "b", "e")
		later := pass(c[1], "x")
		if c[1] == "" {
			later.Pods = nil
		}
		total.merge(later)
		var got strings.Builder
		for _, p := range total.Pods {
			got.WriteString(p.Name)
		}
		if got.String() != c[2] {
			t.Errorf("%q then %q: %q, want %q", c[0], c[1], got.String(), c[2])
		}
		for _, o := range total.Outcomes {
			if held := strings.Contains(got.String(), string(o.Action.UID)); held != (o.Action.Evidence == nil) {
				t.Errorf("%v: the action on %s holds evidence: %t", c, o.Action.UID, !held)
			}
		}
	}
}
