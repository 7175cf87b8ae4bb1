package reaper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// SweepOptions are the options of a sweep.
type SweepOptions struct {
	Options
	// Read reads the kubelet's latest lines, before each pass: a report counts for 30 s.
	Read func(ctx context.Context) []reported.Claim
	// NoWait ends the sweep where it would have to wait for hold or confirm.
	NoWait bool
	// Progress is called before each wait with its length; it may be nil.
	Progress func(rep Report, wait time.Duration)
	// Sleep waits, or returns early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// A kubelet reports one orphan at a time, and the next 2 s after the first is gone. So a sweep reads the log every
// nextReport until lastReport after its start and after each pod that it moved.
const (
	nextReport = 2 * time.Second
	lastReport = 10 * time.Second
)

// Sweep runs passes until time alone changes nothing and the kubelet reports no more pods that can go. It returns all that
// the passes found and did.
func (r *Reaper) Sweep(ctx context.Context, opt SweepOptions) (Report, error) {
	var total Report
	var cniAt time.Duration // when the neighbour's turn is due
	lastAt := r.Clock.Now().Boot
	for {
		opt.CNI = r.Clock.Now().Boot >= cniAt
		if opt.Read != nil {
			opt.Options.Claims = opt.Read(ctx)
		}
		rep, err := r.Pass(ctx, opt.Options)
		if err != nil {
			return total, err
		}
		if rep.CNI != nil {
			in, _ := rep.CNI.Due()
			cniAt = r.Clock.Now().Boot + in
		}
		total.merge(rep)
		if slices.ContainsFunc(rep.Outcomes, policy.Outcome.Moved) {
			lastAt = r.Clock.Now().Boot
		}
		if r.Clock.Now().Boot-lastAt < lastReport && rep.hidden() {
			rep.Next, rep.Pending = min(rep.Next, nextReport), true
		}
		if opt.DryRun || (!rep.Pending && rep.Next > 0) || (opt.NoWait && rep.Next > 0) || ctx.Err() != nil {
			return total, ctx.Err()
		}
		if rep.Next == 0 {
			continue
		}
		if opt.Progress != nil {
			opt.Progress(rep, rep.Next)
		}
		if err := opt.Sleep(ctx, rep.Next); err != nil {
			return total, err
		}
	}
}

// hidden reports whether a pod only waits for the kubelet's report.
func (rep *Report) hidden() bool {
	for p := range policy.At(rep.Pods, policy.InPlace) {
		if p.OnlyUnreported() {
			return true
		}
	}
	return false
}

// merge adds a later pass: newer verdicts win, outcomes add up, and a pod that an earlier pass moved or removed keeps its
// last verdict in the pods directory.
func (rep *Report) merge(later Report) {
	outcomes := append(rep.Outcomes, later.Outcomes...)
	moved := map[parsers.PodUID]bool{}
	for i := range outcomes {
		moved[outcomes[i].Action.UID] = true
	}
	there := make(map[parsers.PodUID]bool, len(later.Pods))
	for p := range policy.At(later.Pods, policy.InPlace) {
		there[p.UID] = true
	}
	gone := slices.DeleteFunc(rep.Pods, func(p policy.Judged) bool { return p.Stage != policy.InPlace || !moved[p.UID] || there[p.UID] })
	for i := range gone {
		there[gone[i].UID] = true
	}
	pods := make([]policy.Judged, 0, len(gone)+len(later.Pods))
	for i := range later.Pods {
		p := &later.Pods[i]
		for len(gone) > 0 && (p.Stage != policy.InPlace || gone[0].Name < p.Name) {
			pods, gone = append(pods, gone[0]), gone[1:]
		}
		if p.Stage == policy.InQuarantine && moved[p.UID] && there[p.UID] {
			continue // the report has it already, with the evidence of its removal
		}
		pods = append(pods, *p)
	}
	pods = append(pods, gone...)
	for i := range outcomes {
		if there[outcomes[i].Action.UID] {
			outcomes[i].Action.Evidence = nil // pods has it
		}
	}
	if later.CNI == nil {
		later.CNI = rep.CNI
	} else if rep.CNI != nil {
		later.CNI = later.CNI.After(rep.CNI)
	}
	errors := append(rep.Look.Errors, later.Look.Errors...)
	slices.Sort(errors)
	*rep = later
	rep.Pods, rep.Outcomes, rep.Look.Errors = pods, outcomes, slices.Compact(errors)
}

// Summary returns the line that systemctl status shows.
func (rep *Report) Summary(rules policy.Rules) string {
	var dirs, keep, wait, strays int
	for p := range policy.At(rep.Pods, policy.InPlace) {
		switch {
		case p.UID == "":
			strays++
			continue
		case p.Living():
		case p.Decision == policy.Keep:
			keep++
		default:
			wait++
		}
		dirs++
	}
	mode := "enforce"
	if rules.Observe {
		mode = "observe"
	}
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	text := fmt.Sprintf("mode %s: %s, %s, %d kept; %d in quarantine", mode, count(dirs, "pod directory", "pod directories"),
		count(wait, "orphan waits", "orphans wait"), keep, len(rep.Entries))
	if rep.Stopped {
		text = "stopped, since a quarantined pod turned out to be alive (orphan-reaper quarantine resume); " + text
	}
	if strays > 0 {
		text += "; " + count(strays, "name is no pod UID", "names are no pod UID")
	}
	return text
}
