package reaper

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// Loop scans, judges and carries out, one pass at a time. It is not safe for concurrent use.
type Loop struct {
	Scanner  Scanner
	Disk     Disk
	Ledger   Ledger
	Clock    Clock
	Recorder Recorder
	Meter    Meter
	CNI      CNI
	Log      *slog.Logger
	Settings judge.Settings
	// LogProblems returns why a log cannot be read now. nil if nothing reads one.
	LogProblems func() []string

	holds map[parsers.PodUID]judge.Hold
	logs  reports
	// refused are the moves that the disk refused since the start.
	refused   map[parsers.PodUID]judge.Refusal
	node      judge.Node    // of the last scan: by which kubelet a line may be
	clock     judge.Instant // when a scan was judged, the one at which the wall clock was least ahead since it was set
	clockSet  judge.Instant // when one was judged last before which the wall clock had been set forward
	last      Status
	announced map[string]announced // what the journal has, by name of the pod or entry
	// listening is since when a report of any pod would have been read and heeded: the silence about a restored pod counts.
	listening      judge.Instant
	quarantineMade bool // since the start
	// unmovable is why nothing can be moved to the quarantine.
	unmovable string
	slice     time.Duration // of the next clean
	cni       time.Duration // when the next CNI sweep is due, on CLOCK_BOOTTIME
	// cniRetry is the time between the last two sweeps that were not complete: it doubles.
	cniRetry time.Duration
}

// Options are the options of one pass.
type Options struct {
	Only   []parsers.PodUID // empty: every pod
	DryRun bool             // scan and judge, and change nothing
	// Order is true for an operator's sweep, which obeys no mode, and NoMoves for one that moves no pod.
	Order   bool
	NoMoves bool
	// Lift are pods that an operator has restored, and now names in a sweep.
	Lift []parsers.PodUID
}

const (
	// mostMoves is the most pods of one batch: between the fresh scan and the last rename no more than these are moved.
	mostMoves = 32
	// recheckAge is the time after the fresh scan in which a rename may begin. One that the disk holds up must not leave the
	// others to an answer of minutes ago: a static pod may return under its UID.
	recheckAge = 5 * time.Second
	// cleanSlice is how long cleaning may take before it gives way.
	cleanSlice = time.Second
	// mostSlice bounds the slice of a clean that has to read more than it can in a second before it removes anything.
	mostSlice = time.Minute
	// recheckTime bounds the scan and the restores right after a move, also when the daemon has to stop.
	recheckTime = 30 * time.Second
	// clockStep is by how much more than CLOCK_BOOTTIME the wall clock must have advanced to have been set forward.
	clockStep = 10 * time.Second
	// stuckAfter is how long a changing call may take before it counts as one that hangs.
	stuckAfter = 2 * time.Minute
)

// Pass scans, judges and, unless it is a dry run, carries out what is due. The error is for a ledger that cannot be locked;
// everything else is in the status.
func (l *Loop) Pass(ctx context.Context, opt Options) (Status, error) {
	p := l.begin(opt)
	recovered := false
	if !opt.DryRun {
		leave, err := l.Ledger.Enter(ctx)
		if err != nil {
			return Status{}, err
		}
		defer leave()
		p.lift()
		recovered = p.recover()
	}
	p.scan(ctx)
	if !opt.DryRun {
		p.makeQuarantine()
		p.release()
		p.write(conflicts(p.decided.Plan.Conflicts, p.node, p.Clock.Now())...)
		if recovered && p.restore(ctx, p.decided.Plan.Restores, p.decided.Plan.Breaker) {
			p.move(ctx)
			p.clean(ctx)
		}
	}
	p.sweepCNI(ctx)
	return p.end(), nil
}

func (l *Loop) begin(opt Options) *pass {
	p := &pass{Loop: l, opt: opt, began: l.Clock.Now()}
	p.checkQuarantine()
	return p
}

// checkQuarantine notes why nothing can be moved to the quarantine, and logs each change.
func (p *pass) checkQuarantine() {
	was := p.unmovable
	p.unmovable = ""
	if err := p.Disk.Movable(); err != nil {
		p.unmovable = err.Error()
		p.problems = append(p.problems, "cannot use the quarantine: "+p.unmovable)
		if p.unmovable != was {
			p.Log.Error("cannot use the quarantine; nothing is moved", slog.Any("error", err))
		}
	}
}

// makeQuarantine makes a missing quarantine as soon as something may be moved, and not when it is: the disk may be full then.
func (p *pass) makeQuarantine() {
	permit := p.permit()
	if p.quarantineMade || p.opt.NoMoves || !permit.MayRemove() {
		return
	}
	if err := p.Disk.Make(permit); err != nil {
		p.fail("cannot make the quarantine", err)
		return
	}
	p.quarantineMade = true
}

// pass is one pass under way.
type pass struct {
	*Loop
	opt      Options
	began    judge.Instant
	snapshot judge.Snapshot
	decided  judge.Decided
	events   []judge.Event
	problems []string
	cleaned  []parsers.PodUID // confirmed dead in this pass
	now      bool             // a clean gave way
	old      bool             // a batch of moves was begun after the scan
}

// scan reads the node and decides.
func (p *pass) scan(ctx context.Context) {
	p.snapshot = p.Scanner.Scan(ctx, p.opt.Only, entryUIDs(p.Ledger.Entries()))
	p.node = p.snapshot.Node
	p.decided = decide(ctx, p.input(p.snapshot))
	if len(p.opt.Only) == 0 {
		p.holds = p.decided.Holds
		p.logs.forget(p.snapshot.At)
		return
	}
	if p.holds == nil {
		p.holds = map[parsers.PodUID]judge.Hold{}
	}
	maps.Copy(p.holds, p.decided.Holds)
}

// decide judges, in a span of its own.
func decide(ctx context.Context, in judge.Input) judge.Decided {
	_, end := span.Start(ctx, "judge")
	defer end(nil)
	return judge.Decide(in)
}

// input is what the snapshot is judged with.
func (p *pass) input(s judge.Snapshot) judge.Input {
	now := p.Clock.Now()
	since, ok := now.Since(p.clock)
	switch ahead := now.Wall.Sub(p.clock.Wall) - since; {
	case ok && ahead > clockStep:
		p.clock, p.clockSet = now, now
	case !ok || ahead < 0:
		p.clock = now
	}
	return judge.Input{
		Snapshot: s, Entries: p.Ledger.Entries(), Holds: p.holds, Logs: p.logs.last, Restored: p.Ledger.Restored(),
		Refused: p.refused, Settings: p.Settings, Permit: p.permit(), ClockSet: p.clockSet, Now: now,
	}
}

// permit asks the gate. It is asked again before each batch, since the batch before may have opened the breaker.
func (p *pass) permit() judge.Permit {
	_, open := p.Ledger.Breaker()
	return judge.Standing{
		Node: p.node, Breaker: open, Unmovable: p.unmovable,
		Observe: p.Settings.Observe && !p.opt.Order, DryRun: p.opt.DryRun,
	}.Gate()
}

// write appends events to the ledger. It returns false if they are not on disk: then nothing may be changed.
func (p *pass) write(events ...judge.Event) bool {
	if len(events) == 0 {
		return true
	}
	written, err := p.Ledger.Append(events...)
	if err != nil {
		p.fail("cannot write to the ledger", err)
		return false
	}
	for _, e := range written {
		p.Meter.Event(e)
	}
	p.events = append(p.events, written...)
	return true
}

func (p *pass) fail(what string, err error) {
	p.problems = append(p.problems, what+": "+err.Error())
	p.Log.Error("a step of the pass failed", slog.String("what", what), slog.Any("error", err))
}

// lift ends an operator's restore: the sweep names the pod.
func (p *pass) lift() {
	restored := p.Ledger.Restored()
	for _, uid := range p.opt.Lift {
		if r, ok := restored[uid]; ok && r.Operator {
			p.write(judge.Event{Kind: judge.EventReleased, At: p.Clock.Now(), UID: uid})
		}
	}
}

// deaf reports whether a log cannot be read.
func (l *Loop) deaf() bool { return l.LogProblems != nil && len(l.LogProblems()) > 0 }

// release lets the pods be judged again that an operator restored and the kubelet does not report any more. Where a kept pod
// is reported, no kubelet runs or its log cannot be read, silence about a pod shows nothing.
func (p *pass) release() {
	hides := slices.ContainsFunc(p.decided.Pods, func(j judge.Judged) bool { return j.Hides() })
	if now := p.Clock.Now(); hides || p.deaf() || p.node.KubeletKnown.Truth != judge.Yes || p.listening == (judge.Instant{}) {
		p.listening = now
	}
	for _, uid := range judge.Silent(p.input(p.snapshot), p.listening) {
		p.write(judge.Event{Kind: judge.EventReleased, At: p.Clock.Now(), UID: uid})
	}
}
