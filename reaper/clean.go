package reaper

import (
	"context"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// clean removes what is due in quarantine, and gives way after a second: a living pod waits for the next scan. Everything
// about the entry was judged by the scan of this pass. Many batches of moves may take minutes after that scan, so then the
// next pass cleans.
func (p *pass) clean(ctx context.Context) {
	if p.old {
		return
	}
	slice := max(p.slice, cleanSlice)
	if next := p.decided.Plan.Next; next > 0 {
		slice = min(slice, max(next, afterReport))
	}
	until := p.Clock.Now().Boot + slice
	for i, m := range p.decided.Plan.Cleans {
		permit := p.permit()
		left := until - p.Clock.Now().Boot
		if !permit.MayRemove() || ctx.Err() != nil {
			return
		}
		if left <= 0 {
			p.now = true
			return
		}
		if !p.write(intents([]judge.Move{m}, p.node, p.Clock.Now())...) {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, left)
		outcomes := p.Disk.Execute(bounded, permit, []judge.Move{m})
		cancel()
		for _, o := range outcomes {
			p.now = p.now || o.Stopped
			if p.slice = cleanSlice; o.Stopped && i == 0 && len(o.Taken) == 0 {
				p.slice = min(2*slice, mostSlice) // reading alone takes longer than the slice
			}
			if o.Result == judge.Done || o.Result == judge.Partly {
				p.cleaned = append(p.cleaned, o.Move.UID)
			}
		}
		if !p.write(results(outcomes, p.node, p.Clock.Now())...) {
			return
		}
	}
}

// cniEvery is the time between two CNI sweeps if nothing asks for one.
const cniEvery = time.Hour

// sweepCNI sweeps CNI's files at the first pass with a complete answer, after each confirmed pod, hourly, and by an operator's
// order. A command that is about some pods does not read them.
func (p *pass) sweepCNI(ctx context.Context) {
	now := p.Clock.Now().Boot
	dueNow := p.opt.Order || len(p.cleaned) > 0 || p.cni <= now
	if p.opt.DryRun {
		dueNow = len(p.opt.Only) == 0
	}
	if p.CNI == nil || !dueNow {
		return
	}
	ctx, end := span.Start(ctx, "cni")
	defer end(nil)
	p.last.CNI = p.CNI.Sweep(ctx, CNISweep{
		Permit: p.permit(), Snapshot: p.snapshot, Cleaned: p.cleaned, Retention: p.Settings.Retention, Write: p.write,
	})
	p.problems = append(p.problems, p.last.CNI.Problems...)
	switch {
	case p.opt.DryRun:
	case p.last.CNI.Complete:
		p.cni, p.cniRetry = now+cniEvery, 0
	default: // after a boot the kubelet may run before its runtime
		p.cniRetry = min(max(2*p.cniRetry, whileWaiting), cniEvery)
		p.cni = now + p.cniRetry
	}
}
