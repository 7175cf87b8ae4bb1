package ui

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestOutcomeWords checks the text of each result of an action against the closed list of outcomes.
func TestOutcomeWords(t *testing.T) {
	results := []policy.Result{policy.Done, policy.Gone, policy.Refused, policy.Partly, policy.Failed, policy.Conflict}
	want := map[policy.ActionKind][]string{
		policy.Park:    {"quarantined", "removed", "kept", "quarantined", "failed", "kept"},
		policy.Clear:   {"quarantined", "kept", "kept", "quarantined", "failed", "kept"},
		policy.PutBack: {"kept", "removed", "kept", "quarantined", "failed", "kept"},
		policy.Strip:   {"removed", "removed", "quarantined", "quarantined", "failed", "quarantined"},
		policy.Purge:   {"removed", "removed", "quarantined", "quarantined", "failed", "quarantined"},
	}
	for kind, words := range want {
		for i, result := range results {
			if got := outcomeWord(&policy.Outcome{Action: policy.Action{Kind: kind}, Result: result}); got != words[i] {
				t.Errorf("%s %s: %s, want %s", kind, result, got, words[i])
			}
		}
	}
	for _, c := range []struct {
		residue []policy.Residue
		want    string
	}{
		{nil, outcomeWouldRemove},
		{[]policy.Residue{{Class: contents.ClassSkeleton}, {Class: contents.ClassProjected}}, outcomeWouldRemove},
		{[]policy.Residue{{Class: contents.ClassSkeleton}, {Class: contents.ClassEphemeral}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassData}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassSkeleton, Partial: true}}, outcomeWouldQuarantine},
		{[]policy.Residue{{Class: contents.ClassProjected, Partial: true}}, outcomeWouldRemove},
	} {
		if got := wouldBecome(c.residue); got != c.want {
			t.Errorf("%v: %s, want %s", c.residue, got, c.want)
		}
	}
}

// TestUnmountResults checks that a mount counts as unmounted if the kernel did it and the mount is gone, and not in
// doubt.
func TestUnmountResults(t *testing.T) {
	a := policy.Mount{ID: 1, Path: "volumes/a", Type: "tmpfs", Source: "t", Root: "/"}
	b := policy.Mount{ID: 2, Path: "volumes/b", Type: "hugetlbfs", Source: "t", Root: "/", Stays: "another needs it"}
	both, doubt := []policy.Mount{a, b}, []string{"not known: volumes/a", "not tried: volumes/b", "orphan-reaper unmount u"}
	for _, tt := range []struct {
		what      string
		u         reaper.Unmounting
		want, not []string
	}{
		{"gone", reaper.Unmounting{Left: []policy.Mount{b}}, []string{"unmounted: volumes/a", "still mounted: volumes/b"}, []string{"lost"}},
		{"still there", reaper.Unmounting{Left: both}, []string{"still mounted: volumes/a"}, []string{"unmounted:"}},
		{"in doubt", reaper.Unmounting{Left: both, Doubt: true}, doubt, []string{"unmounted:", "still mounted:"}},
	} {
		tt.u.UID, tt.u.Mounts.Mounts = parsers.PodUID("u"), both
		tt.u.Outcomes = []policy.MountOutcome{{Mount: a, Result: policy.Done}}
		v := NewUnmount(&tt.u, Context{}, false)
		text := printed(t, func(p *Printer) { p.Unmount(v) })
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", tt.what, want, text)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q in\n%s", tt.what, not, text)
			}
		}
		if !v.NeedsPerson() || !v.Mounts[1].Memory {
			t.Errorf("%s: %+v", tt.what, v)
		}
	}
}

// TestOutcomeOfTheNewDirectory checks that a directory that a pod made again after its move does not count as moved.
func TestOutcomeOfTheNewDirectory(t *testing.T) {
	pod := func(d policy.Decision) policy.Judged {
		return policy.Judged{Evidence: policy.Evidence{UID: "u", Name: "u"}, Verdict: policy.Verdict{Decision: d}}
	}
	for d, want := range map[policy.Decision]string{policy.Keep: outcomeKept, policy.Reap: outcomeQuarantined} {
		r := reaper.Report{Pods: []policy.Judged{pod(d)}, Outcomes: []policy.Outcome{{Action: policy.Action{Kind: policy.Park, UID: "u"}}}}
		if v := NewReport(r, Context{}, Show{Swept: true}); len(v.Pods) != 1 || v.Pods[0].Outcome != want {
			t.Errorf("%s: %+v", d, v.Pods)
		}
	}
}
