package reaper

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// When the daemon scans.
const (
	afterReport   = 100 * time.Millisecond // a kubelet writes the lines of one sweep together
	betweenScans  = time.Second
	whileWaiting  = 30 * time.Second
	whileReported = 5 * time.Minute
	otherwise     = time.Hour
	betweenHints  = 10 * time.Second // scans that a line asks for which is no report
	afterFailure  = 30 * time.Second
)

// Daemon runs passes when the log, the clock or an operator asks for one.
//
// Run owns the state on one goroutine. A simulator calls Begin, Read, Due and Turn in its place.
type Daemon struct {
	*Loop
	// Lines are the lines of all log sources, and Parse returns the report in a line, if there is one.
	Lines <-chan parsers.Line
	Parse func(parsers.Line) (parsers.Report, bool)
	// Reload delivers the settings of a new configuration.
	Reload <-chan judge.Settings
	// Asks is where Ask leaves a request, with its traceparent: a channel of one place, nil if nothing asks.
	Asks chan string
	// Ended is called after each pass, with its number. It must not block.
	Ended func(pass uint64, s Status, err error)

	schedule schedule
	parent   string        // the traceparent of the request for the next pass
	passes   atomic.Uint64 // that have begun
}

// schedule is when the next pass is due, on CLOCK_BOOTTIME.
type schedule struct {
	due      time.Duration
	begun    time.Duration // when the last pass began
	lastHint time.Duration
}

// ask has a pass at the given time, if none is due earlier, and not within a second of the last one.
func (s *schedule) ask(at time.Duration) {
	if at = max(at, s.begun+betweenScans); s.due == 0 || at < s.due {
		s.due = at
	}
}

// Begin asks for the first pass.
func (d *Daemon) Begin() {
	now := d.Clock.Now().Boot
	d.holds, d.listening = map[parsers.PodUID]judge.Hold{}, d.Clock.Now()
	d.schedule = schedule{due: max(now, 1), begun: now - betweenScans, lastHint: now - betweenHints}
}

// Due returns when the next pass is due on CLOCK_BOOTTIME.
func (d *Daemon) Due() time.Duration { return d.schedule.due }

// Read takes one line of the log.
func (d *Daemon) Read(line parsers.Line) {
	r, ok := d.Parse(line)
	if !ok {
		return
	}
	now := d.Clock.Now()
	l := judge.Logged{Report: r, At: now}
	if judge.Credible(l, d.node, now) != "" {
		// It may be the first line of a kubelet that has just started, or forged: both only ask for a scan.
		if now.Boot-d.schedule.lastHint >= betweenHints {
			d.schedule.lastHint = now.Boot
			d.schedule.ask(now.Boot + afterReport)
		}
		return
	}
	fresh := d.logs.add(l, d.node, now)
	switch removal := r.Kind == parsers.Removal; {
	case fresh, removal && d.holdIsOver(r.UID, now):
		d.schedule.ask(now.Boot + afterReport)
	case removal && !d.wasReported(r.UID):
		d.schedule.ask(max(now.Boot+afterReport, d.schedule.begun+whileWaiting))
	}
}

// wasReported reports whether the last scan has the pod, and counted it as reported. It may have failed to list the pods, or
// came while the kubelet still had a volume of this one.
func (d *Daemon) wasReported(uid parsers.PodUID) bool {
	p, ok := d.last.Pod(uid)
	return ok && p.Facts[judge.Reported].Truth == judge.Yes
}

// holdIsOver reports whether nothing but the report is missing: a repeated line of a pod that is kept starts nothing.
func (d *Daemon) holdIsOver(uid parsers.PodUID, now judge.Instant) bool {
	p, ok := d.last.Pod(uid)
	if !ok || p.Decision == judge.Remove || !p.good() {
		return false
	}
	since, ok := now.Since(d.last.At)
	return ok && since >= p.Next.Sub(d.last.At.Wall)
}

// Ask asks for a pass (POST /scan), and returns the number of one that begins after the call. It does not block, and any
// goroutine may call it. The pass belongs to the trace of traceparent, if that is not "".
func (d *Daemon) Ask(traceparent string) (pass uint64) {
	pass = d.passes.Load() + 1 // read first: a pass that begins meanwhile begins after the call, too
	select {
	case d.Asks <- traceparent:
	default: // a request is there already, and its pass is still to begin
	}
	return pass
}

// Turn runs the pass that is due.
func (d *Daemon) Turn(ctx context.Context) error {
	_, err := d.turn(ctx, Options{})
	return err
}

func (d *Daemon) turn(ctx context.Context, opt Options) (Status, error) {
	pass := d.passes.Add(1)
	d.schedule.begun = d.Clock.Now().Boot
	traced, end := span.Start(span.Parent(ctx, d.parent), "pass")
	s, err := d.Pass(traced, opt)
	end(err)
	d.parent = ""
	now := d.Clock.Now().Boot
	d.schedule.due = 0
	switch {
	case err != nil:
		d.schedule.ask(now + afterFailure)
	case s.Now:
		d.schedule.due = now
	case s.Breaker != nil: // another process closes it, and /readyz counts from the first pass that finds it closed
		d.schedule.ask(now + whileWaiting)
	case s.waiting() || s.Node.KubeletKnown.Truth != judge.Yes: // the log of a kubelet that starts is not followed yet
		d.schedule.ask(now + whileWaiting)
	case s.hides(), d.deaf(): // no line asks for a pass when a log is there again
		d.schedule.ask(now + whileReported)
	default:
		d.schedule.ask(now + otherwise)
	}
	if err == nil && s.Next > 0 {
		d.schedule.ask(now + s.Next)
	}
	if d.Ended != nil {
		d.Ended(pass, s, err)
	}
	return s, err
}

// Run runs passes until ctx ends. A pass that runs finishes what it must: a moved pod is asked about once more. Lines and
// requests that come meanwhile wait, and are read before the next pass.
func (d *Daemon) Run(ctx context.Context) {
	d.Begin()
	d.note(judge.EventStarted)
	defer d.note(judge.EventStopped)
	var watch sync.WaitGroup
	watched, end := context.WithCancel(ctx)
	watch.Go(func() { d.watch(watched) })
	defer watch.Wait()
	defer end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		d.drain()
		now := d.Clock.Now().Boot
		if d.Due() <= now {
			_ = d.Turn(ctx) // Ended has the error
			continue
		}
		timer.Reset(d.Due() - now)
		select {
		case <-ctx.Done():
		case line, ok := <-d.Lines:
			d.take(line, ok)
		case s := <-d.Reload:
			d.Settings = s
			d.schedule.ask(now)
		case d.parent = <-d.Asks:
			d.schedule.ask(now)
		case <-timer.C:
		}
	}
}

// mostDrained bounds the lines that are read between two passes.
const mostDrained = 1024

// drain reads the lines and settings that came during the last pass: while passes follow each other at once, since a clean
// goes on, a report would otherwise wait until it is too old, and mode observe would not stop the clean.
func (d *Daemon) drain() {
	for range mostDrained {
		select {
		case line, ok := <-d.Lines:
			d.take(line, ok)
		case s := <-d.Reload:
			d.Settings = s
		default:
			return
		}
	}
}

func (d *Daemon) take(line parsers.Line, ok bool) {
	if !ok { // the sources have ended
		d.Lines = nil
		return
	}
	d.Read(line)
}

// note records that the daemon has started or stopped.
func (d *Daemon) note(kind judge.EventKind) {
	written, err := d.Ledger.Append(judge.Event{Kind: kind, At: d.Clock.Now()})
	if err != nil {
		d.Log.Error("cannot write to the ledger", slog.Any("error", err))
	}
	for _, e := range written {
		d.Meter.Event(e)
	}
	d.record()
}

// Stuck returns the path at which a changing call has not returned for two minutes, "" if there is none: then the watchdog
// is not to be fed. It may be called from any goroutine.
func (l *Loop) Stuck() string {
	if path, since := l.Disk.Stuck(); since >= stuckAfter {
		return path
	}
	if l.CNI == nil {
		return ""
	}
	if path, since := l.CNI.Stuck(); since >= stuckAfter {
		return path
	}
	return ""
}

// watch logs a changing call that does not return, and sets the metric: the pass waits for it, since a call that returns late
// still changes the disk.
func (d *Daemon) watch(ctx context.Context) {
	last := ""
	tick := time.NewTicker(stuckAfter / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		path := d.Stuck()
		if path != "" && path != last {
			d.Log.ErrorContext(ctx, "a call that changes the disk has not returned; repair the file system at this path", slog.String("path", path))
		}
		if (path != "") != (last != "") {
			d.Meter.Hangs(path != "")
		}
		last = path
	}
}
