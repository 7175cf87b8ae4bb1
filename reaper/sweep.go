package reaper

import (
	"context"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// quietFor is how long no report of a pod that can be removed has come when a sweep ends.
const quietFor = 10 * time.Second

// Sweep is the daemon's loop for an operator: it runs passes until for ten seconds no report of a pod that can be removed has
// come and no confirm runs, and returns all that they found and did. progress is called after each pass with the time to the
// next one, and may be nil.
func (d *Daemon) Sweep(ctx context.Context, opt Options, progress func(s Status, wait time.Duration)) (Status, error) {
	opt.Order = true
	d.Begin()
	quiet := d.Clock.Now().Boot
	var total Status
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.drain()
		now := d.Clock.Now().Boot
		if d.Due() <= now {
			s, err := d.sweepPass(ctx, &opt)
			if err != nil {
				return total, err
			}
			s.merge(total)
			total = s
			now = d.Clock.Now().Boot
			if s.movesLater() || s.confirms() || s.Now {
				quiet = now
			}
			if opt.DryRun || opt.NoMoves && !s.Now || ctx.Err() != nil || now-quiet >= quietFor {
				return total, ctx.Err()
			}
			d.schedule.ask(quiet + quietFor)
			if progress != nil {
				progress(s, d.Due()-now)
			}
			continue
		}
		timer.Reset(d.Due() - now)
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case line, ok := <-d.Lines:
			d.take(line, ok)
		case <-timer.C:
		}
	}
}

// sweepPass runs one pass of a sweep. An order is carried out once: what it lifts stays lifted.
func (d *Daemon) sweepPass(ctx context.Context, opt *Options) (Status, error) {
	s, err := d.turn(ctx, *opt)
	opt.Lift = nil
	return s, err
}

// movesLater reports whether a pod waits that the kubelet reports.
func (s *Status) movesLater() bool {
	for _, p := range s.Pods {
		if p.Decision == judge.Wait && p.Facts[judge.Reported].Truth == judge.Yes {
			return true
		}
	}
	return false
}

// confirms reports whether an entry waits for the end of confirm. What waits for something else may wait without end.
func (s *Status) confirms() bool {
	return slices.ContainsFunc(s.Quarantine, func(e judge.JudgedEntry) bool {
		return e.Phase == judge.Quarantined && slices.ContainsFunc(e.Reasons, func(r judge.Reason) bool { return r.Reason == judge.Confirming })
	})
}

// Once scans and judges once and changes nothing: scan, explain, doctor. After the scan listen reads the log of the node with
// Recall, which takes some seconds; it gets the status so far.
func (d *Daemon) Once(ctx context.Context, opt Options, listen func(Status)) Status {
	opt.DryRun = true
	p := d.begin(opt)
	p.scan(ctx)
	listen(p.end())
	p.began, p.holds = p.Clock.Now(), nil // the whole hold is still to come: this process does not go on
	p.decided = judge.Decide(p.input(p.snapshot))
	p.sweepCNI(ctx)
	return p.end()
}

// Recall reads a line that may be minutes old: then it releases nothing, by its time, and is for words and counts. It returns
// when the line was written if it is a report that counts now.
func (d *Daemon) Recall(line parsers.Line) (written time.Time, counts bool) {
	r, ok := d.Parse(line)
	if !ok {
		return written, false
	}
	now := d.Clock.Now()
	l := judge.Logged{Report: r, At: now}
	counts = judge.Credible(l, d.node, now) == ""
	// What is too old, or came in one burst with a line that quotes, releases nothing and has words.
	whole := l
	whole.Whole = true
	if judge.ByKubelet(l, d.node) == "" || judge.ByKubelet(whole, d.node) == "" && judge.ByKubelet(d.logs.last[l.UID].Removal, d.node) != "" {
		d.logs.add(l, d.node, now)
	}
	return l.Written(), counts
}
