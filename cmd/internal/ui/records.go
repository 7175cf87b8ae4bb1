package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Waiting returns in one line how many pods of a pass wait for time alone, and until when; "" if none does. A terminal
// gets this line in place of a record for each of them.
func Waiting(rep *reaper.Report) string {
	n, follow, last := 0, 0, time.Duration(0)
	for v := range policy.At(rep.Pods, policy.InPlace) {
		if v.Decision == policy.Wait && slices.ContainsFunc(v.Why, policy.Why.AfterFirst) {
			follow++
		}
		if v.Decision == policy.Wait && v.Due > 0 && (v.For(policy.ReasonHold) || v.For(policy.ReasonYoung)) {
			n++
			last = max(last, v.Due)
		}
	}
	clock := func(d time.Duration) string {
		return rep.Look.At.Wall.Add(d).UTC().Round(time.Second).Format("15:04:05") + " UTC"
	}
	var parts []string
	if n > 0 {
		parts = append(parts, human.Count(n, "pod")+" "+human.Plural(n, "waits for its hold", "wait for their hold")+", until "+clock(last))
	}
	if follow > 0 {
		parts = append(parts, human.Count(follow, "pod")+" "+human.Plural(follow, "follows", "follow")+
			" when the first one has been in quarantine without a sign of life; the next look is at "+clock(rep.Next))
	}
	return strings.Join(parts, "; ")
}
