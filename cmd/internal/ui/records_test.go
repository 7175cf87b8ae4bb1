package ui

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

var noon = time.Date(2026, 3, 1, 8, 31, 34, 0, time.UTC)

// TestWaiting: all pods that wait for time alone share one line.
func TestWaiting(t *testing.T) {
	report := func(n int, v policy.Verdict) *reaper.Report {
		r := &reaper.Report{Look: policy.Look{At: policy.Instant{Wall: noon}}, Next: time.Minute}
		for range n {
			r.Pods = append(r.Pods, policy.Judged{Verdict: v})
		}
		return r
	}
	hold := policy.Verdict{Decision: policy.Wait, Due: 8 * time.Second, Why: []policy.Why{{Reason: policy.ReasonHold}}}
	limit := policy.Verdict{Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonLimit, Detail: policy.FirstPod + " is confirmed"}}}
	for want, r := range map[string]*reaper.Report{
		"43 pods wait for their hold, until 08:31:42 UTC":                                                                  report(43, hold),
		"1 pod waits for its hold, until 08:31:42 UTC":                                                                     report(1, hold),
		"1 pod follows when the first one has been in quarantine without a sign of life; the next look is at 08:32:34 UTC": report(1, limit),
		"": report(2, policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonMounted}}}),
	} {
		if got := Waiting(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
