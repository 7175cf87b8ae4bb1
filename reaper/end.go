package reaper

import (
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// next returns after how long time alone may change something.
func (p *pass) next() time.Duration {
	next := p.decided.Plan.Next
	if p.old && len(p.decided.Plan.Cleans) > 0 {
		next = 1
	}
	if p.CNI == nil || p.opt.DryRun {
		return next
	}
	sweep := max(p.cni-p.Clock.Now().Boot, 1)
	if next == 0 {
		return sweep
	}
	return min(next, sweep)
}

// end returns the status, and writes the journal and the metrics.
func (p *pass) end() Status {
	in := p.input(p.snapshot)
	if len(p.events) > 0 { // with what was done
		p.decided = judge.Decide(in)
	}
	if !p.opt.DryRun && !p.opt.Order {
		p.announce()
	}
	if p.LogProblems != nil {
		p.problems = append(p.problems, p.LogProblems()...)
	}
	s := Status{
		At: p.began, Mode: p.mode(), Node: p.node, Events: p.events, CNI: p.last.CNI,
		Problems: append(p.problems, p.snapshot.Problems...), Now: p.now, Operator: p.unmovable != "",
	}
	if why, stopped := in.Permit.Stopped(); stopped && why.Reason != judge.DryRun {
		s.Stopped = &why
	}
	if e, open := p.Ledger.Breaker(); open {
		s.Breaker = &e
	}
	s.Pods, s.Quarantine, s.Next = p.podStatus(), p.decided.Entries, p.next()
	s.fill()
	if !p.opt.DryRun {
		p.record()
		p.Meter.Status(s, p.Clock.Now().Boot-p.began.Boot)
		p.last = s
	}
	return s
}

func (p *pass) mode() string {
	switch {
	case p.opt.DryRun:
		return "dry-run"
	case p.Settings.Observe && !p.opt.Order:
		return "observe"
	}
	return "enforce"
}

func (p *pass) podStatus() []PodStatus {
	pods := make([]PodStatus, 0, len(p.decided.Pods))
	for _, j := range p.decided.Pods {
		pods = append(pods, p.logs.status(j, p.node, p.Clock.Now()))
	}
	return pods
}

// record writes to the journal what it has not got yet.
func (l *Loop) record() {
	for {
		events := l.Ledger.Unsent()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			if err := l.Recorder.Record(e); err != nil {
				l.Log.Warn("cannot write to the journal; trying again at the next pass", slog.Any("error", err))
				return
			}
			if err := l.Ledger.Sent(e.Seq); err != nil {
				l.Log.Warn("cannot note what the journal has", slog.Any("error", err))
				return
			}
		}
	}
}
