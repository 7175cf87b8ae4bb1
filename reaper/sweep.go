package reaper

import (
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

// merge adds a later pass: newer verdicts win, a pod that a pass has taken keeps what was
// last known of it, and outcomes add up.
func (rep *Report) merge(later Report) {
	outcomes := append(rep.Outcomes, later.Outcomes...)
	took := map[parsers.PodUID]bool{}
	for i := range outcomes {
		took[outcomes[i].Action.UID] = true
	}
	later.keepTaken(rep, took)
	has := make(map[parsers.PodUID]bool, len(later.Look.Pods))
	for i := range later.Look.Pods {
		has[later.Look.Pods[i].UID] = true
	}
	// A pod that this sweep parked is in the report already, with what it was judged from. Its
	// actions need not hold the evidence of the pass that planned them as well.
	later.dropParked(func(uid parsers.PodUID) bool { return took[uid] && has[uid] })
	for i := range outcomes {
		if has[outcomes[i].Action.UID] {
			outcomes[i].Action.Evidence = nil
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
	rep.Outcomes, rep.Look.Errors = outcomes, slices.Compact(errors)
}

// keepTaken adds the earlier report's pods that were taken and that the report has no more, with
// their verdicts. Both reports have their pods in the order of the names, and it stays so.
func (rep *Report) keepTaken(earlier *Report, took map[parsers.PodUID]bool) {
	was, now := earlier.Look.Pods, rep.Look.Pods
	there := make(map[string]bool, len(now))
	for i := range now {
		there[now[i].Name] = true
	}
	kept := 0 // what stays of the earlier report moves to the front of its own memory
	for i := range was {
		if took[was[i].UID] && !there[was[i].Name] {
			was[kept], earlier.Verdicts[kept] = was[i], earlier.Verdicts[i]
			kept++
		}
	}
	if kept == 0 {
		return
	}
	both := kept + len(now)
	pods, verdicts := slices.Grow(was[:kept], len(now))[:both], slices.Grow(earlier.Verdicts[:kept], len(now))[:both]
	for i, n, at := kept-1, len(now)-1, both-1; n >= 0; at-- { // from the back, so that nothing is overwritten
		if i >= 0 && pods[i].Name > now[n].Name {
			pods[at], verdicts[at] = pods[i], verdicts[i]
			i--
		} else {
			pods[at], verdicts[at] = now[n], rep.Verdicts[n]
			n--
		}
	}
	rep.Look.Pods, rep.Verdicts = pods, verdicts
}

// dropParked takes these pods out of the report's parked ones.
func (rep *Report) dropParked(drop func(parsers.PodUID) bool) {
	look, verdicts := rep.Look.Parked[:0], rep.Parked[:0]
	for i := range rep.Look.Parked {
		if e := rep.Look.Parked[i]; !drop(e.UID) {
			look, verdicts = append(look, e), append(verdicts, rep.Parked[i])
		}
	}
	rep.Look.Parked, rep.Parked = slices.Clip(slices.Clone(look)), slices.Clip(slices.Clone(verdicts))
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
	} else if rules.Delay.Left > 0 {
		mode += " from " + rules.Delay.Until.UTC().Format(time.RFC3339)
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
		text = "stopped, since a quarantined pod turned out to be alive (orphan-reaper quarantine resume); " + text
	}
	if strays > 0 {
		text += "; " + count(strays, "name is no pod UID", "names are no pod UID")
	}
	return text
}
