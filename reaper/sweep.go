package reaper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// SweepOptions say how a sweep goes.
type SweepOptions struct {
	Options
	// NoWait leaves what has to wait for hold or confirm to the next run.
	NoWait bool
	// Progress is told before each wait how long it is; nil for silence.
	Progress func(rep Report, wait time.Duration)
	// Sleep waits, or returns early with ctx's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Sweep takes passes until nothing is left that time alone could take further, and returns
// all that they found and did.
func (r *Reaper) Sweep(ctx context.Context, opt SweepOptions) (Report, error) {
	var total Report
	var cniAt time.Duration // when a sweep over the CNI directories is due
	for {
		opt.CNI = r.Clock.Now().Boot >= cniAt
		rep, err := r.Pass(ctx, opt.Options)
		if err != nil {
			return total, err
		}
		if rep.CNI.Swept {
			cniAt = r.Clock.Now().Boot + rep.CNI.Due()
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

// merge adds a later pass: newer verdicts win, a pod that a pass has taken keeps what was
// last known of it, and outcomes add up.
func (rep *Report) merge(later Report) {
	outcomes := append(rep.Outcomes, later.Outcomes...)
	planned := append(rep.Planned, later.Planned...)
	seen := map[string]bool{}
	for _, e := range later.Look.Pods {
		seen[e.Name] = true
	}
	took := map[parsers.PodUID]bool{}
	for _, o := range outcomes {
		took[o.Action.UID] = true
	}
	for i, e := range rep.Look.Pods {
		if !seen[e.Name] && took[e.UID] {
			later.Look.Pods = append(later.Look.Pods, e)
			later.Verdicts = append(later.Verdicts, rep.Verdicts[i])
		}
	}
	// A pod that this sweep parked is in the report already, with what it was judged from.
	later.dropParked(took)
	later.sortPods()
	swept := rep.CNI
	swept.Merge(later.CNI)
	later.CNI = swept
	errors := append(rep.Look.Errors, later.Look.Errors...)
	slices.Sort(errors)
	*rep = later
	rep.Outcomes, rep.Planned, rep.Look.Errors = outcomes, planned, slices.Compact(errors)
}

// sortPods brings pods and verdicts, which belong together, into the order of the names.
func (rep *Report) sortPods() {
	order := make([]int, len(rep.Look.Pods))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rep.Look.Pods[a].Name, rep.Look.Pods[b].Name) })
	pods, verdicts := make([]policy.Evidence, len(order)), make([]policy.Verdict, len(order))
	for to, from := range order {
		pods[to], verdicts[to] = rep.Look.Pods[from], rep.Verdicts[from]
	}
	rep.Look.Pods, rep.Verdicts = pods, verdicts
}

// dropParked takes the parked of these pods out of the report, where it has the pod itself.
func (rep *Report) dropParked(drop map[parsers.PodUID]bool) {
	pods := make(map[parsers.PodUID]bool, len(rep.Look.Pods))
	for _, p := range rep.Look.Pods {
		pods[p.UID] = true
	}
	var look []policy.Evidence
	var verdicts []policy.ParkedVerdict
	for i, e := range rep.Look.Parked {
		if drop[e.UID] && pods[e.UID] {
			continue
		}
		look, verdicts = append(look, e), append(verdicts, rep.Parked[i])
	}
	rep.Look.Parked, rep.Parked = look, verdicts
}

// Summary is the one line that systemctl status shows.
func (rep *Report) Summary(rules policy.Rules) string {
	var keep, wait, strays int
	for _, v := range rep.Verdicts {
		switch {
		case v.UID == "":
			strays++
		case v.Living():
		case v.Decision == policy.Keep:
			keep++
		default:
			wait++
		}
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
	text := fmt.Sprintf("mode %s: %s, %s, %d kept; %d in quarantine", mode, count(len(rep.Verdicts)-strays, "pod directory", "pod directories"),
		count(wait, "orphan waits", "orphans wait"), keep, len(rep.Entries))
	if rep.Stopped {
		text = "stopped, since a parked pod turned out to live (orphan-reaper quarantine resume); " + text
	}
	if strays > 0 {
		text += "; " + count(strays, "name is no pod UID", "names are no pod UID")
	}
	return text
}
