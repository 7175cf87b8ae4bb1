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
	refused map[parsers.PodUID]judge.Refusal
	node    judge.Node // of the last scan: by which kubelet a line may be
	last    Status
	told    map[string]told // what an operator was told, by name of the pod or entry
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
	// cleanSlice is how long cleaning may take before it gives way.
	cleanSlice = time.Second
	// mostSlice bounds the slice of a clean that has to read more than it can in a second before it removes anything.
	mostSlice = time.Minute
	// recheckTime bounds the scan and the restores right after a move, also when the daemon has to stop.
	recheckTime = 30 * time.Second
	// stuckAfter is how long a changing call may take before the gate is shut.
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
	return judge.Input{
		Snapshot: s, Entries: p.Ledger.Entries(), Holds: p.holds, Logs: p.logs.last, Restored: p.Ledger.Restored(),
		Refused: p.refused, Settings: p.Settings, Permit: p.permit(), Now: p.Clock.Now(),
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

// restore moves living pods back: the intents and the breaker are written first, together. It returns false if these or the
// results could not be written: then nothing else may be changed either.
func (p *pass) restore(ctx context.Context, moves, breaker []judge.Move) bool {
	permit := p.permit()
	if len(moves) == 0 || !permit.MayRestore() {
		return true
	}
	now := p.Clock.Now()
	events := intents(moves, p.node, now)
	if _, open := p.Ledger.Breaker(); !open && len(breaker) > 0 {
		events = append([]judge.Event{breakerEvent(breaker[0], p.node, now)}, events...)
	}
	if !p.write(events...) {
		return false
	}
	p.now = true // the next scan shows where the pods are
	return p.write(results(p.Disk.Execute(ctx, permit, moves), p.node, p.Clock.Now())...)
}

// move moves the planned pods to quarantine, in batches: intent, recheck, rename, recheck, result.
func (p *pass) move(ctx context.Context) {
	moves := p.decided.Plan.Moves
	if p.opt.NoMoves {
		return
	}
	for len(moves) > 0 && ctx.Err() == nil {
		batch := moves[:min(mostMoves, len(moves))]
		moves = moves[len(batch):]
		if !p.moveBatch(ctx, batch) {
			return
		}
	}
}

// moveBatch returns false if no more pods may be moved in this pass.
func (p *pass) moveBatch(ctx context.Context, batch []judge.Move) bool {
	now := p.Clock.Now()
	for i := range batch {
		batch[i].Entry = entryName(batch[i].UID, now, p.Ledger.Entries())
	}
	if !p.write(intents(batch, p.node, now)...) {
		return false
	}
	p.old = true
	still, withdrawn := p.recheck(ctx, batch)
	if !p.write(results(withdrawn, p.node, p.Clock.Now())...) {
		return false // the next pass finds by the intents that nothing was moved
	}
	permit := p.permit()
	if len(still) == 0 || !permit.MayRemove() {
		return p.write(results(refuse(still, "the gate was shut"), p.node, p.Clock.Now())...) && permit.MayRemove()
	}
	outcomes := p.Disk.Execute(ctx, permit, still)
	p.noteRefused(outcomes)
	// The results are written first, so that whatever happens now, the pods are judged as quarantined ones. The second
	// question is asked also if the daemon has to stop: a living pod would stay in quarantine until the next start.
	written := p.write(results(outcomes, p.node, p.Clock.Now())...)
	return p.recheckMoved(ctx, outcomes) && written
}

// forgetRefused is how long after its last try a refused move is forgotten: longer than the longest time between two.
const forgetRefused = 24 * time.Hour

// noteRefused remembers the moves that the disk refused, and forgets those of long ago.
func (p *pass) noteRefused(outcomes []judge.Outcome) {
	now := p.Clock.Now()
	maps.DeleteFunc(p.refused, func(_ parsers.PodUID, r judge.Refusal) bool { return now.Age(r.At) > forgetRefused })
	for _, o := range outcomes {
		if (o.Result == judge.Refused || o.Result == judge.Failed) && !o.Stopped {
			if p.refused == nil {
				p.refused = map[parsers.PodUID]judge.Refusal{}
			}
			p.refused[o.Move.UID] = judge.Refusal{At: now, Err: o.Err, Times: p.refused[o.Move.UID].Times + 1}
		}
	}
}

// recheck judges the pods again on a fresh scan, right before the rename. It returns those that are still dead, and the
// outcomes of the others.
func (p *pass) recheck(ctx context.Context, batch []judge.Move) (still []judge.Move, withdrawn []judge.Outcome) {
	fresh := p.Scanner.Scan(ctx, uidsOf(batch), nil)
	p.node = fresh.Node
	in := p.input(fresh)
	in.Entries = nil
	planned := map[parsers.PodUID]judge.Move{}
	d := decide(ctx, in)
	maps.Copy(p.holds, d.Holds) // what this scan has seen counts, too: a pod that showed itself begins its hold again
	for _, m := range d.Plan.Moves {
		planned[m.UID] = m
	}
	for _, m := range batch {
		if again, ok := planned[m.UID]; ok && again.ID == m.ID {
			still = append(still, m)
			continue
		}
		why := "it is no longer the directory that was judged"
		for _, j := range d.Pods {
			if j.UID == m.UID && len(j.Reasons) > 0 {
				m.Reasons, why = j.Reasons, string(j.Reasons[0].Reason)+": "+j.Reasons[0].Detail
			}
		}
		withdrawn = append(withdrawn, judge.Outcome{Move: m, Result: judge.Refused, Err: why})
	}
	return still, withdrawn
}

// recheckMoved asks right after the move whether a pod is alive, and restores it at once. It returns false if one was.
func (p *pass) recheckMoved(ctx context.Context, outcomes []judge.Outcome) bool {
	var moved []parsers.PodUID
	for _, o := range outcomes {
		if o.Result == judge.Done {
			moved = append(moved, o.Move.UID)
			delete(p.holds, o.Move.UID) // if it is restored, nothing of what was seen before counts
		}
	}
	if len(moved) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recheckTime)
	defer cancel()
	fresh := p.Scanner.Scan(ctx, moved, moved)
	p.node = fresh.Node
	p.snapshot = p.snapshot.With(fresh)
	in := p.input(fresh)
	plan := decide(ctx, in).Plan
	p.write(conflicts(plan.Conflicts, p.node, p.Clock.Now())...)
	p.restore(ctx, plan.Restores, plan.Breaker)
	return len(plan.Restores)+len(plan.Conflicts) == 0
}

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
			if !o.Stopped && (o.Result == judge.Done || o.Result == judge.Partly) {
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

// sweepCNI sweeps CNI's files at the first pass with a complete answer, after each confirmed pod, hourly, and by an operator's order.
func (p *pass) sweepCNI(ctx context.Context) {
	now := p.Clock.Now().Boot
	if p.CNI == nil || !p.opt.DryRun && !p.opt.Order && len(p.cleaned) == 0 && p.cni > now {
		return
	}
	ctx, end := span.Start(ctx, "cni")
	defer end(nil)
	p.last.CNI = p.CNI.Sweep(ctx, p.permit(), p.snapshot, p.cleaned, p.write)
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

// end returns the status, and tells the journal and the metrics.
func (p *pass) end() Status {
	in := p.input(p.snapshot)
	if len(p.events) > 0 { // with what was done
		p.decided = judge.Decide(in)
	}
	if !p.opt.DryRun && !p.opt.Order {
		p.tell()
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

// recover closes the intents that have no result, by where the directory is. Cleans and purges of what is still there go on
// after the scan. It returns false if a result could not be written: then nothing may be changed.
func (p *pass) recover() bool {
	written := true
	for name, e := range p.Ledger.Entries() {
		removes := e.Phase == judge.Cleaning || e.Phase == judge.Purging
		if !removes && e.Phase != judge.Moving && e.Phase != judge.Restoring {
			continue
		}
		inPods, inQuarantine, err := p.Disk.Where(e.UID, name)
		if err != nil {
			p.fail("cannot find out what became of "+name, err)
			continue
		}
		if removes && inQuarantine != (judge.FileID{}) {
			continue
		}
		r := recovered(name, e, inPods, inQuarantine, p.Clock.Now())
		if r.Kind == judge.EventRestored && r.Other == "" { // an exchange may have given the pod's other directory a name already
			if _, other, err := p.Disk.Where(e.UID, name+judge.OtherSuffix); err == nil && other != (judge.FileID{}) {
				r.Other, r.OtherID = name+judge.OtherSuffix, other
			}
		}
		written = p.write(r) && written
	}
	return written
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
	kept := slices.ContainsFunc(p.decided.Pods, func(j judge.Judged) bool {
		return (j.Decision == judge.Keep || j.Decision == judge.IsAlive) && j.Facts[judge.Reported].Truth == judge.Yes
	})
	if now := p.Clock.Now(); kept || p.deaf() || p.node.KubeletKnown.Truth != judge.Yes || p.listening == (judge.Instant{}) {
		p.listening = now
	}
	for _, uid := range judge.Silent(p.input(p.snapshot), p.listening) {
		p.write(judge.Event{Kind: judge.EventReleased, At: p.Clock.Now(), UID: uid})
	}
}
