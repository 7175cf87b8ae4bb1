package reaper

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// Daemon runs passes when the log, the clock or an operator asks for one.
type Daemon struct {
	*Reaper
	// Lines are the log lines of all sources. Parse returns the sighting in a line, if there is one.
	Lines <-chan parsers.Line
	Parse func(parsers.Line) (parsers.Sighting, bool)
	// Reload delivers the rules of a new configuration.
	Reload <-chan policy.Rules
	// Asks are requests for a look now. Each is answered at once, and before Ended of that look. An answer must not block.
	Asks <-chan func(Asked)
	// Ended is called at the end of each pass and must not block; it may be nil.
	Ended func(look uint64, rep Report, err error)
	// Status is called with one line about what the daemon does, when that changes.
	Status func(string)
	// Checkpoint saves how far the sources have read. It is called after each pass, at most once a minute while lines
	// arrive, and at the end.
	Checkpoint    func()
	lookError     string // of the last look, "" if it succeeded
	contradiction string // between the settings and the kubelet, as of the last look
	// cniDue is when the neighbour's next turn is due, and cniEnded when the last ended.
	cniDue, cniEnded time.Duration
	looks            uint64        // that have begun
	passBegan        atomic.Int64  // when the running pass began, 0 while none runs
	loggedSlow       time.Duration // how long the running pass had taken when it was last logged as slow
	next             *pending      // the input of the next pass
}

// slowPass is how long a pass may run before that is logged. It is logged again after twice the time, and so on.
const slowPass = 30 * time.Second

// firstLook is how long the first look waits for the log, in which the kubelet repeats itself every 2 s.
const firstLook = 2500 * time.Millisecond

// failedAgain is the time between a failed look and the next one.
const failedAgain = 30 * time.Second

// checkpointEvery is the time between two checkpoints while lines arrive.
const checkpointEvery = time.Minute

type passResult struct {
	rep    Report
	claims []reported.Claim
	err    error
}

// Run looks once soon after the start, and then whenever something asks for it. At most one pass runs at a time; sightings
// that arrive meanwhile wait for the next one. Run returns when ctx ends, after the running pass has finished what it must.
// It returns an error if only a new start can find the kubelet's root directory or the state directory.
func (d *Daemon) Run(ctx context.Context) error {
	d.Begin()
	p := d.next
	timer, watch := time.NewTimer(0), time.NewTimer(0)
	defer timer.Stop()
	defer watch.Stop()
	var (
		running      bool
		done         = make(chan passResult, 1)
		rules        *policy.Rules
		checkpointed time.Duration
		shutdown     = ctx.Done()
	)
	for {
		now := d.Clock.Now().Boot
		if !running && rules != nil {
			d.Rules, rules = *rules, nil
			p.ask(now)
		}
		if !running && ctx.Err() == nil && p.due != 0 && p.due <= now {
			running = true
			watch.Reset(slowPass)
			claims := d.startPass(now)
			go func() { done <- d.pass(ctx, claims) }()
		}
		if !running && ctx.Err() != nil {
			d.Checkpoint()
			return nil
		}
		if !running && p.due > now {
			timer.Reset(p.due - now)
		}
		select {
		case <-shutdown:
			shutdown = nil
		case line, ok := <-d.Lines:
			if !ok {
				d.Lines = nil
				continue
			}
			d.Read(line)
			if now-checkpointed > checkpointEvery {
				checkpointed = now
				d.Checkpoint()
			}
		case r := <-d.Reload:
			rules = &r
		case answer := <-d.Asks:
			answer(d.asked(running, d.Clock.Now().Boot))
		case end := <-done:
			running = false
			if err := d.endPass(end); err != nil {
				return err
			}
		case <-timer.C:
		case <-watch.C:
			if running {
				watch.Reset(d.logSlow(d.Stuck(d.Clock.Now().Boot)))
			}
		}
	}
}

// Begin asks for the first pass. A simulator calls Begin, Read, Due and Turn in place of Run: they use the caller's
// goroutine and no clock but Reaper.Clock.
func (d *Daemon) Begin() {
	d.next = &pending{gap: minGap}
	d.next.ask(d.Clock.Now().Boot + firstLook)
}

// Due returns when the next pass is due on CLOCK_BOOTTIME, 0 if nothing asks for one.
func (d *Daemon) Due() time.Duration { return d.next.due }

// Turn runs the pass that is due. It returns an error if only a new start helps.
func (d *Daemon) Turn(ctx context.Context) error {
	return d.endPass(d.pass(ctx, d.startPass(d.Clock.Now().Boot)))
}

// startPass counts a pass that begins now, and returns its claims.
func (d *Daemon) startPass(now time.Duration) []reported.Claim {
	d.looks++
	d.passBegan.Store(int64(now))
	return d.next.take()
}

func (d *Daemon) endPass(end passResult) error {
	if d.loggedSlow > 0 {
		d.Log.Info("the slow pass has ended", slog.Duration("ran", d.Stuck(d.Clock.Now().Boot).Round(time.Second)))
	}
	d.loggedSlow = 0
	d.passBegan.Store(0)
	d.handle(end)
	d.Checkpoint()
	if errors.Is(end.err, policy.ErrRootMoved) || errors.Is(end.err, policy.ErrStateRemoved) {
		return end.err
	}
	return nil
}

// logSlow logs a pass that runs for longer than slowPass, and returns when to log it again. It does not wait for the metrics
// file, which may be on the file system that hangs.
func (d *Daemon) logSlow(running time.Duration) time.Duration {
	if running < slowPass {
		return slowPass - running
	}
	doing, _ := d.doing.Load().(string)
	d.Log.Warn("a pass has not ended; does a file system or the runtime hang?",
		slog.String("doing", doing), slog.Duration("running", running.Round(time.Second)))
	d.Status("for " + running.Round(time.Second).String() + ": " + doing)
	if d.loggedSlow == 0 {
		d.Meter.Slow()
	}
	d.loggedSlow = running
	go d.Meter.Flush()
	return running
}

func (d *Daemon) pass(ctx context.Context, claims []reported.Claim) passResult {
	rep, err := d.Pass(ctx, Options{Claims: claims, CNI: d.Clock.Now().Boot >= d.cniDue})
	if rep.CNI != nil {
		in, _ := rep.CNI.Due()
		d.cniEnded = d.Clock.Now().Boot
		d.cniDue = d.cniEnded + in
	}
	return passResult{rep, claims, err}
}

// Read adds one line of the log, also while a pass runs.
func (d *Daemon) Read(line parsers.Line) {
	s, ok := d.Parse(line)
	if !ok {
		return
	}
	d.Meter.Sighting(s.Report)
	d.next.sighted(reported.Claim{Sighting: s, At: d.Clock.Now(), Lines: 1})
}

// handle logs how a pass ended, and schedules the next one.
func (d *Daemon) handle(end passResult) {
	p, now := d.next, d.Clock.Now().Boot
	if d.Ended != nil {
		if end.err != nil {
			end.rep.Next = failedAgain
		}
		d.Ended(d.looks, end.rep, end.err)
	}
	if end.err != nil {
		if text := end.err.Error(); text != d.lookError {
			d.lookError = text // logged once, and again when it changes
			d.Log.Error("cannot read the node; trying again every 30 s", slog.String("error", text))
		}
		d.Status("cannot read the node: " + end.err.Error())
		for _, c := range end.claims { // for the next look
			p.sighted(c)
		}
		p.ended, p.gap = now, maxGap
		p.due = now + failedAgain
		return
	}
	if d.lookError != "" {
		d.lookError = ""
		d.Log.Info("the node can be read again")
	}
	d.logContradiction(end.rep.Look.Node.Agrees)
	p.lookEnded(end.rep, end.claims, now)
	status := end.rep.Summary(d.Rules)
	if d.contradiction != "" {
		status = "removing nothing: " + d.contradiction
	}
	d.Status(status)
}

// logContradiction logs when the settings begin to contradict the kubelet, and when that ends.
func (d *Daemon) logContradiction(agrees policy.Fact) {
	contradiction := ""
	if agrees.Truth != policy.Yes {
		contradiction = agrees.Detail
	}
	switch contradiction {
	case d.contradiction:
	case "":
		d.Log.Info("the settings and the kubelet agree again")
	default:
		d.Log.Warn("nothing is removed until the settings and the kubelet agree", slog.String("contradiction", contradiction))
	}
	d.contradiction = contradiction
}

// Stuck returns how long the current pass has been running, 0 if none runs.
func (d *Daemon) Stuck(now time.Duration) time.Duration {
	if b := d.passBegan.Load(); b != 0 {
		return now - time.Duration(b)
	}
	return 0
}
