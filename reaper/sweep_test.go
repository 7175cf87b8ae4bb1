package reaper

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMerge checks that the report of two passes lists each pod once and in order, with the first pass's state of the
// pods that it parked, and holds no evidence twice: ten thousand orphans took 300 MB.
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

// TestUnfinished checks that a pod in quarantine counts as unfinished if no pass can continue with it, unless it
// waits for a time or an event that comes by itself.
func TestUnfinished(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	n.pass(testRules.Hold)
	expect := func(what string, want int) {
		t.Helper()
		if rep := mustPass(t, r); rep.Unfinished != want {
			t.Errorf("%s: %d unfinished, want %d", what, rep.Unfinished, want)
		}
	}
	expect("just parked", 0)
	n.pass(testRules.Confirm / 2)
	expect("it confirms", 0)
	n.pass(testRules.Confirm)
	in, uid := n.quarantine, uidOf(1)
	n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uid: {policy.FactInUse: policy.Yes}}
	expect("a process has a file open", 0)
	n.signs[uid] = map[policy.FactName]policy.Truth{policy.FactMounted: policy.Unknown}
	expect("its mounts are not known", 1)
	n.signs = nil
	n.scans[uid] = policy.Fact{Detail: "too many open files"}
	expect("the mounts are not known right before the removal", 1)
	delete(n.scans, uid)
	expect("it is removed", 0)
	if len(in) != 0 {
		t.Errorf("in quarantine: %v", in)
	}
}
