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
	planned := append(rep.Planned, later.Planned...)
	took := map[parsers.PodUID]bool{}
	for i := range outcomes {
		took[outcomes[i].Action.UID] = true
	}
	later.keepTaken(rep, took)
	// A pod that this sweep parked is in the report already, with what it was judged from.
	later.dropParked(took)
	if later.CNI == nil {
		later.CNI = rep.CNI
	} else if rep.CNI != nil {
		later.CNI = later.CNI.After(rep.CNI)
	}
	errors := append(rep.Look.Errors, later.Look.Errors...)
	slices.Sort(errors)
	*rep = later
	rep.Outcomes, rep.Planned, rep.Look.Errors = outcomes, planned, slices.Compact(errors)
}

// keepTaken adds the earlier report's pods that were taken and that the report has no more, with
// their verdicts. Both reports have their pods in the order of the names, and it stays so.
func (rep *Report) keepTaken(earlier *Report, took map[parsers.PodUID]bool) {
	was, now := earlier.Look.Pods, rep.Look.Pods
	if len(was) == 0 {
		return
	}
	pods := make([]policy.Evidence, 0, len(was)+len(now))
	verdicts := make([]policy.Verdict, 0, len(was)+len(now))
	n := 0
	for i := range was {
		for ; n < len(now) && now[n].Name < was[i].Name; n++ {
			pods, verdicts = append(pods, now[n]), append(verdicts, rep.Verdicts[n])
		}
		if took[was[i].UID] && (n == len(now) || now[n].Name != was[i].Name) {
			pods, verdicts = append(pods, was[i]), append(verdicts, earlier.Verdicts[i])
		}
	}
	rep.Look.Pods, rep.Verdicts = append(pods, now[n:]...), append(verdicts, rep.Verdicts[n:]...)
}

// dropParked takes the parked of these pods out of the report, where it has the pod itself.
func (rep *Report) dropParked(drop map[parsers.PodUID]bool) {
	pods := make(map[parsers.PodUID]bool, len(rep.Look.Pods))
	for i := range rep.Look.Pods {
		pods[rep.Look.Pods[i].UID] = true
	}
	var look []policy.Evidence
	var verdicts []policy.ParkedVerdict
	for i := range rep.Look.Parked {
		if e := &rep.Look.Parked[i]; !drop[e.UID] || !pods[e.UID] {
			look, verdicts = append(look, *e), append(verdicts, rep.Parked[i])
		}
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
