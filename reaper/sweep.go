package reaper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// SweepOptions are the options of a sweep.
type SweepOptions struct {
	Options
	// NoWait ends the sweep where it would have to wait for hold or confirm.
	NoWait bool
	// Progress is called before each wait with its length; it may be nil.
	Progress func(rep Report, wait time.Duration)
	// Sleep waits, or returns early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Sweep runs passes until time alone changes nothing, and returns all that they found and did.
func (r *Reaper) Sweep(ctx context.Context, opt SweepOptions) (Report, error) {
	var total Report
	var cniAt time.Duration // when the neighbour's turn is due
	for {
		opt.CNI = r.Clock.Now().Boot >= cniAt
		rep, err := r.Pass(ctx, opt.Options)
		if err != nil {
			return total, err
		}
		if rep.CNI != nil {
			in, _ := rep.CNI.Due()
			cniAt = r.Clock.Now().Boot + in
		}
		total.merge(rep)
		if opt.DryRun || (!rep.Pending && rep.Next > 0) || (opt.NoWait && rep.Next > 0) || ctx.Err() != nil {
			return total, ctx.Err()
		}
		opt.Claims = nil
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
	} else if rules.Delay.Left > 0 {
		mode += " from " + rules.Delay.Until.UTC().Format(time.RFC3339)
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
