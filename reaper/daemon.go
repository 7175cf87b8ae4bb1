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
	// Lines are the log lines of all sources; Parse makes sightings of them.
	Lines <-chan parsers.Line
	Parse func(parsers.Line) (parsers.Sighting, bool)
	// Reload has new rules.
	Reload <-chan policy.Rules
	// Asks are questions for a look now, each answered at once, and before Ended of that look. An answer must not wait.
	Asks <-chan func(Asked)
	// Ended is called with how each pass ended, and must not wait; it may be nil.
	Ended func(look uint64, rep Report, err error)
	// Status is called with what the daemon does, in one line, when that changes.
	Status func(string)
	// Checkpoint keeps how far the sources have read; called after passes, at most once a
	// minute while lines come, and at the end.
	Checkpoint func()
	// Part returns the wait of this node, at most the given time; nil for a random one.
	Part      func(most time.Duration) time.Duration
	failing   string // the last look's error, "" where it succeeded
	disagrees string // how settings contradict the kubelet by the last look
	// cniDue is when the neighbour's next turn is due, and cniEnded when the last ended.
	cniDue, cniEnded time.Duration
	begun            uint64 // how many looks
	// beat is when the pass under way began, or 0 while none runs.
	beat atomic.Int64
	// slow is how long the pass under way had been running when that was logged last.
	slow time.Duration
	next *pending // what the next pass is for
}

// slowPass is how long a pass may run before that is logged. It is logged again each time twice as late.
const slowPass = 30 * time.Second

// firstLook is how long the first look waits for the log, in which the kubelet repeats itself every 2 s.
const firstLook = 2500 * time.Millisecond

// failedAgain is how soon a look is tried again that could not be taken.
const failedAgain = 30 * time.Second

// checkpointEvery is how often the sources' positions are kept while lines come.
const checkpointEvery = time.Minute

type passed struct {
	rep    Report
	claims []reported.Claim
	err    error
}

// Run looks once soon after the start and then whenever something asks for it, until ctx ends, or only a new start can find
// the kubelet's root directory or the state directory. A pass under way is finished as far as it must be. At most one pass
// is in flight; sightings that come meanwhile are coalesced for the next.
func (d *Daemon) Run(ctx context.Context) error {
	d.Begin()
	p := d.next
	timer, watch := time.NewTimer(0), time.NewTimer(0)
	defer timer.Stop()
	defer watch.Stop()
	var (
		running  bool
		done     = make(chan passed, 1)
		rules    *policy.Rules
		kept     time.Duration
		shutdown = ctx.Done()
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
			claims := d.taken(now)
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
			if now-kept > checkpointEvery {
				kept = now
				d.Checkpoint()
			}
		case r := <-d.Reload:
			rules = &r
		case answer := <-d.Asks:
			answer(d.asked(p, running, d.Clock.Now().Boot))
		case end := <-done:
			running = false
			if err := d.finished(end); err != nil {
				return err
			}
		case <-timer.C:
		case <-watch.C:
			if running {
				watch.Reset(d.lags(d.Stuck(d.Clock.Now().Boot)))
			}
		}
	}
}

// Begin asks for the first pass. Begin, Read, Due and Turn are Run one step after the other, in the caller's
// goroutine and by no clock but Reaper.Clock: a simulator calls them instead.
func (d *Daemon) Begin() {
	d.next = &pending{gap: minGap}
	d.next.ask(d.Clock.Now().Boot + firstLook)
}

// Due returns when the next pass is due on CLOCK_BOOTTIME, 0 where nothing asks for one.
func (d *Daemon) Due() time.Duration { return d.next.due }

// Turn takes the pass that is due. It returns an error where only a new start helps.
func (d *Daemon) Turn(ctx context.Context) error {
	return d.finished(d.pass(ctx, d.taken(d.Clock.Now().Boot)))
}

// taken begins a pass and returns the claims that it is for.
func (d *Daemon) taken(now time.Duration) []reported.Claim {
	d.begun++
	d.beat.Store(int64(now))
	return d.next.take()
}

// finished handles the end of a pass.
func (d *Daemon) finished(end passed) error {
	d.recovered(d.Clock.Now().Boot)
	d.beat.Store(0)
	d.ended(d.next, end)
	d.Checkpoint()
	if errors.Is(end.err, policy.ErrRootMoved) || errors.Is(end.err, policy.ErrStateRemoved) {
		return end.err
	}
	return nil
}

// lags logs that the pass under way has been running for long, and returns when to log it again. The metrics may be on what
// hangs, so it does not wait for them.
func (d *Daemon) lags(running time.Duration) time.Duration {
	if running < slowPass {
		return slowPass - running
	}
	doing, _ := d.doing.Load().(string)
	d.Log.Warn("a pass has not ended; does a file system or the runtime hang?",
		slog.String("doing", doing), slog.Duration("running", running.Round(time.Second)))
	d.Status("for " + running.Round(time.Second).String() + ": " + doing)
	if d.slow == 0 {
		d.Meter.Slow()
	}
	d.slow = running
	go func() {
		_ = d.Meter.Flush() // it logs its errors
	}()
	return running
}

// recovered logs the end of a slow pass.
func (d *Daemon) recovered(now time.Duration) {
	if d.slow > 0 {
		d.Log.Info("the slow pass has ended", slog.Duration("ran", d.Stuck(now).Round(time.Second)))
	}
	d.slow = 0
}

func (d *Daemon) pass(ctx context.Context, claims []reported.Claim) passed {
	d.spread()
	rep, err := d.Pass(ctx, Options{Claims: claims, CNI: d.Clock.Now().Boot >= d.cniDue})
	if rep.CNI != nil {
		in, _ := rep.CNI.Due()
		d.cniEnded = d.Clock.Now().Boot
		d.cniDue = d.cniEnded + in
	}
	return passed{rep, claims, err}
}

// Read adds one line of the log, also while a pass runs.
func (d *Daemon) Read(line parsers.Line) {
	s, ok := d.Parse(line)
	if !ok {
		return
	}
	d.Meter.Sighting(s.Report)
	d.next.sighted(reported.Claim{Sighting: s, At: d.Clock.Now(), Lines: 1, Bytes: len(line.Text) + 1})
}

func (d *Daemon) ended(p *pending, end passed) {
	now := d.Clock.Now().Boot
	if d.Ended != nil {
		if end.err != nil {
			end.rep.Next = failedAgain
		}
		d.Ended(d.begun, end.rep, end.err)
	}
	if end.err != nil {
		if text := end.err.Error(); text != d.failing {
			d.failing = text // logged once, and again when it changes
			d.Log.Error("cannot read the node; trying again every 30 s", slog.String("error", text))
		}
		d.Status("cannot read the node: " + end.err.Error())
		// The lines count at the next look.
		for _, c := range end.claims {
			p.sighted(c)
		}
		p.ended, p.gap = now, maxGap
		p.due = now + failedAgain
		return
	}
	if d.failing != "" {
		d.failing = ""
		d.Log.Info("the node can be looked at again")
	}
	d.agrees(end.rep.Look.Node.Agrees)
	p.lookEnded(end.rep, end.claims, now)
	status := end.rep.Summary(d.Rules)
	if d.disagrees != "" {
		status = "taking nothing: " + d.disagrees
	}
	d.Status(status)
}

// agrees logs once that settings contradict the kubelet, and the end of that.
func (d *Daemon) agrees(f policy.Fact) {
	words := ""
	if f.Truth != policy.Yes {
		words = f.Detail
	}
	switch words {
	case d.disagrees:
	case "":
		d.Log.Info("the settings and the kubelet agree again")
	default:
		d.Log.Warn("nothing is removed until the settings and the kubelet agree", slog.String("contradiction", words))
	}
	d.disagrees = words
}

// Stuck returns for how long the pass under way has been running; 0 where none runs.
func (d *Daemon) Stuck(now time.Duration) time.Duration {
	if b := d.beat.Load(); b != 0 {
		return now - time.Duration(b)
	}
	return 0
}
