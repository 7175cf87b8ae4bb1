package report

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestBound checks that one node's response is no larger than a node's report, and cannot change the counts of
// others.
func TestBound(t *testing.T) {
	long := strings.Repeat("ä\x1b[2J", 1000)
	r := Report{Node: long, Version: long, Mode: long, More: 3}
	for range 1000 {
		r.Missing, r.Errors = append(r.Missing, long), append(r.Errors, long)
	}
	for range 14_000 {
		p := Pod{UID: long, Namespace: long, Name: long, Verdict: policy.Decision(long), NeedsPerson: true}
		for range 10 {
			p.Why = append(p.Why, policy.Why{Reason: policy.Reason(long), Detail: long})
		}
		r.Pods = append(r.Pods, p)
	}
	testkit.Must(t, r.Bound())
	if len(r.Pods) != mostPods || r.More != 14_000-mostPods+3 || len(r.Missing) > mostErrors || len(r.Errors) > mostErrors || len(r.Pods[0].Why) > mostReasons {
		t.Errorf("%d pods, %d more, %d missing, %d errors, %d reasons", len(r.Pods), r.More, len(r.Missing), len(r.Errors), len(r.Pods[0].Why))
	}
	p := r.Pods[mostPods-1]
	for _, text := range []string{
		r.Node, r.Version, r.Mode, r.Missing[0], r.Errors[0], p.UID, p.Namespace, p.Name, string(p.Verdict), string(p.Why[0].Reason), p.Why[0].Detail,
	} {
		if len(text) > mostText || strings.Contains(text, "\x1b") {
			t.Errorf("%q", text)
		}
	}
	for i, c := range []Counts{
		{PodDirectories: -1},
		{Reap: -1},
		{Wait: -1},
		{Keep: -1},
		{NeedsPerson: -1},
		{Quarantine: -1},
		{QuarantineBytes: -1},
		{Keep: mostCount + 1},
		{QuarantineBytes: mostBytes + 1},
	} {
		if err := (&Report{Counts: c}).Bound(); err == nil {
			t.Errorf("%d: %+v was accepted", i, c)
		}
	}
	if (&Report{More: -1}).Bound() == nil || (&Answer{InSeconds: -1}).Bound() == nil {
		t.Error("a negative number was accepted")
	}
}
