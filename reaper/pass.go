package reaper

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Reaper runs passes over the node, one at a time. It is not safe for concurrent use.
type Reaper struct {
	Prober   Prober
	Remover  Remover // nil if nothing may change
	Ledger   Ledger
	Store    Store // nil if nothing is remembered
	Clock    Clock
	Recorder Recorder
	Meter    Meter
	Log      *slog.Logger
	Rules    policy.Rules
	CNI      Neighbour // nil if there is none
	// BatchSize is the most actions of one batch; 0 is policy.BatchSize.
	BatchSize int

	memory    memory
	unsaved   bool           // the disk has an older memory: it could not be written
	unwritten *policy.Record // the record that opened the breaker, while the ledger cannot be written
	home      quarantineHome // the last known quarantine
	doing     atomic.Value   // a string: what the running pass does now
}

// memory is what one pass saves for the next. CNI is the neighbour's part.
type memory struct {
	decide.Memory
	CNI json.RawMessage `json:"cni,omitempty"`
}

// Load reads the memory of earlier passes. Without it every hold starts again.
func (r *Reaper) Load() error {
	if r.Store == nil {
		return nil
	}
	if _, err := r.Store.Load("holds", &r.memory); err != nil {
		return err
	}
	if _, err := r.Store.Load("home", &r.home); err != nil {
		return err
	}
	if _, err := r.Store.Load("heard", &r.memory.Log); err != nil {
		return err
	}
	_, err := r.Store.Load("quiet", &r.memory.Messages)
	return err
}

// Options are the options of one pass.
type Options struct {
	Claims []reported.Claim // of the log since the last pass
	Only   []parsers.PodUID // empty: the whole pods directory
	DryRun bool             // look and decide, and change nothing
	CNI    bool             // the neighbour's turn is due
}

// Pass looks at the node, decides, and carries out what was decided. A dry run changes neither the node nor the state.
func (r *Reaper) Pass(ctx context.Context, opt Options) (Report, error) {
	var cut cutOff
	if !opt.DryRun {
		leave, err := r.enter(ctx)
		if err != nil {
			return Report{}, err
		}
		defer leave()
		cut = r.recover()
	}
	start := r.Clock.Now()
	r.beginPhase(ctx, "looking at the node", "")
	look, err := r.Prober.Look(ctx, decide.InWork(r.Ledger.Entries(), r.Rules, start, r.memory.Pressed), opt.Only)
	if err != nil {
		return Report{}, err
	}
	look.Errors = append(cut.problems, look.Errors...)
	was := r.memory.Memory
	d := decide.Decide(decide.Case{
		Look: look, Claims: opt.Claims, Memory: was, Entries: r.Ledger.Entries(), Breaker: r.stopped(),
		Rules: r.Rules, Only: len(opt.Only) > 0, DryRun: opt.DryRun,
	})
	r.memory.Memory = d.Memory
	rep := Report{Look: d.Look, Pods: d.Pods}
	if opt.DryRun {
		rep.Misplaced(r.ReadQuarantine())
		r.keepUnmovable(rep.Pods)
	}
	if r.Remover != nil {
		rep.Means = r.Remover.Means()
	}
	if !opt.DryRun {
		if len(d.Plan.Undo)+len(d.Plan.Remove)+len(d.Plan.Moves) > 0 {
			progress.From(ctx).Begin("removing", "entry", 0)
		}
		r.endCutOff(ctx, &rep, cut)
		if r.Remover != nil && !r.Rules.Observe && len(opt.Only) == 0 {
			r.closeUnmounts(&rep)
		}
		r.carryOut(ctx, &rep, d.Plan)
	}
	r.runNeighbour(ctx, &rep, opt)
	if !opt.DryRun {
		r.writeQuiet(&rep)
		r.remember(&rep, opt, was)
		r.Meter.Look(rep.Look, rep.Pods, r.Clock.Now().Boot-start.Boot)
		r.publish(&rep, opt.Claims)
	}
	rep.Entries, rep.Stopped = policy.Listed(r.Ledger.Entries()), r.stopped()
	rep.Unfinished = d.Unfinished(rep.Entries, r.Rules)
	d.Memory = r.memory.Memory
	rep.Next, rep.Pending = d.Next(rep.Outcomes, rep.Entries, r.Rules, r.Clock.Now())
	if rep.undone { // a living pod may wait for it
		rep.Next = min(rep.Next, failedAgain)
	}
	if rep.CNI != nil {
		if in, pending := rep.CNI.Due(); pending {
			rep.Next, rep.Pending = min(rep.Next, in), true
		}
	}
	return rep, nil
}

// beginPhase records what the pass does now, for the log of slow passes and for the progress line.
func (r *Reaper) beginPhase(ctx context.Context, what, unit string) {
	r.doing.Store(what)
	progress.From(ctx).Begin(what, unit, 0)
}

// keepUnmovable keeps the pods that would be moved if a pass could move none, as far as that shows without a try.
func (r *Reaper) keepUnmovable(pods []policy.Judged) {
	if r.Remover == nil {
		return
	}
	_, _, err := r.findQuarantine()
	if err == nil {
		err = r.Remover.Movable()
	}
	if err == nil {
		return
	}
	for p := range policy.At(pods, policy.InPlace) {
		if p.Decision != policy.Keep || len(p.Verdict.Leaves) > 0 || policy.OnlyFor(p.Why, policy.ReasonObserve) {
			p.Refuse([]policy.Why{{Reason: policy.ReasonCannotMove, Detail: err.Error()}})
		}
	}
}

// Misplaced records that the quarantine cannot be read, or is not the right one.
func (rep *Report) Misplaced(err error) {
	if err != nil {
		rep.Quarantine = err
		rep.Look.Errors = append(rep.Look.Errors, err.Error())
	}
}

// enter locks the ledger and checks the quarantine.
func (r *Reaper) enter(ctx context.Context) (leave func(), err error) {
	leave, err = r.Ledger.Enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkQuarantine(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// runNeighbour gives the neighbour its turn if it is due, or if a pod was just removed.
func (r *Reaper) runNeighbour(ctx context.Context, rep *Report, opt Options) {
	if r.CNI == nil || !opt.CNI && !decide.Stripped(rep.Outcomes) {
		return
	}
	r.beginPhase(ctx, "sweeping the files of CNI", "file")
	rep.CNI = r.CNI.Turn(ctx, Turn{
		Rules: r.Rules, Only: opt.Only, DryRun: opt.DryRun, Node: rep.Look.Node, Stopped: r.stopped(), Memory: r.memory.CNI,
	})
	r.memory.CNI = rep.CNI.Memory()
	rep.Look.Errors = append(rep.Look.Errors, rep.CNI.Problems()...)
}

// remember saves the memory for the next pass, if it differs from what it was.
func (r *Reaper) remember(rep *Report, opt Options, was decide.Memory) {
	now := &r.memory.Memory
	if r.Store != nil && !maps.Equal(now.Messages.Pods, was.Messages.Pods) {
		if err := r.Store.Save("quiet", now.Messages); err != nil {
			r.Log.Error("cannot save how often the kubelet named each pod; after a restart the count begins again", slog.Any("error", err))
		}
	}
	changed := !maps.Equal(now.Holds, was.Holds) || !maps.Equal(now.Recorded, was.Recorded) ||
		!maps.EqualFunc(now.Refused, was.Refused, decide.Refusal.Equal) || !maps.Equal(now.Names, was.Names) || !maps.Equal(now.Static, was.Static)
	if r.Store == nil || (!changed && !r.unsaved && len(opt.Claims) == 0 && rep.CNI == nil) {
		return
	}
	r.saveMemory()
	if err := r.Store.Save("heard", now.Log); err != nil {
		r.Log.Error("cannot save the kubelet's reports; after a restart those count that were last saved", slog.Any("error", err))
	}
}

// saveMemory writes the memory down. What fails is tried again in the next pass.
func (r *Reaper) saveMemory() {
	err := r.Store.Save("holds", r.memory)
	if r.unsaved = err != nil; r.unsaved {
		r.Log.Error("cannot save what the look found; after a restart the holds are those that were last saved", slog.Any("error", err))
	}
}
