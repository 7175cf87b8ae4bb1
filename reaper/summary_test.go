package reaper

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestSummaryNumbers checks singular and plural in the status line.
func TestSummaryNumbers(t *testing.T) {
	verdict := func(uid parsers.PodUID, d policy.Decision, r policy.Reason) policy.Judged {
		return policy.Judged{Evidence: policy.Evidence{UID: uid}, Verdict: policy.Verdict{Decision: d, Why: []policy.Why{{Reason: r}}}}
	}
	one := verdict("a", policy.Wait, policy.ReasonHold)
	lives := verdict("b", policy.Keep, policy.ReasonSandbox)
	for want, pods := range map[string][]policy.Judged{
		"mode enforce: 0 pod directories, 0 orphans wait, 0 kept; 0 in quarantine":                         nil,
		"mode enforce: 1 pod directory, 1 orphan waits, 0 kept; 0 in quarantine":                           {one},
		"mode enforce: 1 pod directory, 0 orphans wait, 1 kept; 0 in quarantine; 1 name is no pod UID":     {verdict("a", policy.Keep, policy.ReasonMounted), {}},
		"mode enforce: 3 pod directories, 2 orphans wait, 0 kept; 0 in quarantine; 2 names are no pod UID": {one, one, lives, {}, {}},
	} {
		rep := Report{Pods: pods}
		if got := rep.Summary(policy.Rules{}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
