package reaper

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cnisweep"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// Reaper takes passes over the node. It is not safe for concurrent use: at most one look
// is in flight, whoever asks for it.
type Reaper struct {
	Prober  Prober
	Remover Remover // nil where nothing may change
	Ledger  Ledger
	Store   Store // nil: nothing is remembered
	Clock   Clock
	Teller  Teller
	Meter   Meter
	Log     *slog.Logger
	Rules   policy.Rules

	// CNI sweeps over what CNI left; nil leaves that alone.
	CNI *cnisweep.Sweeper

	memory memory
	// listed are the pods that the last look has seen.
	listed  map[parsers.PodUID]bool
	heard   policy.Heard
	proven  bool // one pod has been parked and confirmed since the start
	refused map[parsers.PodUID]*refusal
	stuck   map[string]*refusal // by quarantine entry
	// clearing holds the pods of which a leaf was cleared not long ago, and when: their
	// kubelet has yet to finish.
	clearing map[parsers.PodUID]time.Duration
	// pressed is what the last look said of the free space.
	pressed bool
	// home is where the quarantine was when something was moved there last.
	home home
	// doing is a string that says what the pass under way does now.
	doing atomic.Value
}

// memory is what a look leaves for the next, across restarts.
type memory struct {
	Holds map[parsers.PodUID]policy.Hold `json:"holds"`
	// Told is the last refusal that was told of a pod: told again only when it changes.
	Told map[parsers.PodUID]string `json:"told"`
	// Names are those of the pods that have a directory, as long as somebody told them.
	Names map[parsers.PodUID]policy.PodName `json:"names,omitempty"`
	// NetworkDown is when a look last saw the pods' network not ready.
	NetworkDown policy.Instant `json:"network_down,omitzero"`
	// CNI is what the runtime has listed in the sweeps over the CNI directories.
	CNI cni.Listings `json:"cni,omitzero"`
}

// Load reads what earlier looks left. Without it every hold begins anew.
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
	_, err := r.Store.Load("heard", &r.heard)
	r.heard.Bound()
	return err
}

// Options say what one pass is for.
type Options struct {
	Claims []policy.Claim   // what the log has said since the last pass
	Only   []parsers.PodUID // empty: the whole pods directory
	DryRun bool             // the same way, without the last step and without a trace
	CNI    bool             // sweep over the CNI directories as well
	// CNIFiles is how many files of CNI that are no living pod's are reported one by one, of
	// those that go and of those that stay; all are counted. Less than 0 is all.
	CNIFiles int
}

// Pass is one look and all that follows from it: judge, settle what is parked, plan, park.
// A dry run is the same way and changes nothing, neither on the node nor in the state.
func (r *Reaper) Pass(ctx context.Context, opt Options) (Report, error) {
	var rep Report
	var problems []string
	if !opt.DryRun {
		leave, err := r.Ledger.Enter(ctx)
		if err != nil {
			return rep, err
		}
		defer leave()
		if err := r.atHome(); err != nil {
			return rep, err
		}
		problems, _ = r.recover(ctx)
	}
	start := r.Clock.Now()
	r.doing.Store("looking at the node")
	look, err := r.Prober.Look(ctx, r.inWork(start), opt.Only)
	if err != nil {
		return rep, err
	}
	rep.Look, rep.Means = look, r.Remover.Means()
	rep.Look.Errors = append(problems, look.Errors...)
	r.pressed = look.Node.Pressed()
	r.judge(&rep, opt.Claims)
	plans := r.plan(&rep, opt)
	if !opt.DryRun {
		r.act(ctx, &rep, plans)
	}
	if r.CNI != nil && (opt.CNI || rep.stripped()) {
		r.doing.Store("sweeping the files of CNI")
		sweep := cnisweep.Options{Rules: r.Rules, Only: opt.Only, DryRun: opt.DryRun, Files: opt.CNIFiles}
		rep.CNI = r.CNI.Sweep(ctx, sweep, &r.memory.CNI)
		rep.Look.Errors = append(rep.Look.Errors, rep.CNI.Errors...)
	}
	if !opt.DryRun {
		r.remember(&rep, opt)
		r.Meter.Look(look, slices.Concat(rep.Verdicts, rep.RuntimeOnly), r.Clock.Now().Boot-start.Boot)
		r.tell(&rep, opt.Claims)
	}
	rep.Entries, rep.Stopped = entries(r.Ledger.Entries()), r.Ledger.BreakerOpen()
	rep.schedule(r.Rules, r.Clock.Now())
	return rep, nil
}

// inWork lists the quarantine entries that this pass may take further, and those that rest:
// their pods may live again for as long as anything of them is left.
func (r *Reaper) inWork(now policy.Instant) []policy.EntryState {
	var in []policy.EntryState
	for _, e := range entries(r.Ledger.Entries()) {
		e.Rests = !policy.Due(e, r.Rules, now, r.pressed)
		if !e.Rests || e.Phase == policy.PhaseHeld {
			in = append(in, e)
		}
	}
	return in
}

// entries returns those that are still in quarantine, sorted.
func entries(all map[string]*policy.EntryState) []policy.EntryState {
	var in []policy.EntryState
	for _, e := range all {
		if e.Phase.InQuarantine() {
			in = append(in, *e)
		}
	}
	slices.SortFunc(in, func(a, b policy.EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
	return in
}

// judge fills in the facts that the log and the ledger give, and judges every pod.
func (r *Reaper) judge(rep *Report, claims []policy.Claim) {
	look := &rep.Look
	if look.Node.Network.Truth != policy.Yes && !r.Rules.Waive {
		r.memory.NetworkDown = look.At
	}
	look.Node.NetworkDown = r.memory.NetworkDown
	r.heard.Learn(policy.Known(claims, r.here(look)), look.Node, look.At)
	rep.names = look.Acquaint(r.memory.Names)
	restored := map[parsers.PodUID]*policy.EntryState{}
	for _, e := range r.Ledger.Entries() {
		if e.Restored {
			restored[e.UID] = e
		}
	}
	judge := func(e *policy.Evidence) policy.Verdict {
		r.heard.Tell(e, look.Node, look.At)
		look.TellResources(e)
		policy.NetworkGate(e, look.Node, r.Rules, look.At)
		truth, detail := policy.No, ""
		if was := restored[e.UID]; was != nil {
			truth, detail = policy.Yes, "a person restored it from quarantine"
			if e.PodName == "" {
				// What told the name was removed before.
				e.Namespace, e.PodName = was.Namespace, was.PodName
			}
		}
		e.Facts.Set(policy.FactRestored, truth, "ledger", detail)
		return policy.Judge(*e, look.Node, r.memory.Holds[e.UID], r.Rules, look.At)
	}
	rep.Verdicts, rep.RuntimeOnly = make([]policy.Verdict, len(look.Pods)), make([]policy.Verdict, len(look.RuntimeOnly))
	for i := range look.Pods {
		rep.Verdicts[i] = judge(&look.Pods[i])
	}
	for i := range look.RuntimeOnly {
		rep.RuntimeOnly[i] = judge(&look.RuntimeOnly[i])
	}
}

// plan settles what is parked and plans what to park. In a dry run the slow start is left
// out, so that the plan shows all that would go in the end.
func (r *Reaper) plan(rep *Report, opt Options) []policy.Batch {
	var settled []policy.Action
	states := r.Ledger.Entries()
	gate := policy.Gate{Breaker: r.Ledger.BreakerOpen(), Proven: r.proven || opt.DryRun}
	for i := range rep.Look.Parked {
		e := &rep.Look.Parked[i]
		state := states[e.Entry]
		if state == nil {
			rep.Parked = append(rep.Parked, policy.ParkedVerdict{Settle: policy.SettleWait})
			continue
		}
		r.heard.TellParked(e, rep.Look.Node, *state, rep.Look.At)
		v, action := policy.SettleEntry(*e, rep.Look.Node, *state, r.Rules, rep.Look.At)
		rep.Parked = append(rep.Parked, v)
		if v.Unproven() {
			gate.InWork++
		}
		if v.Alive {
			gate.Breaker = true
		}
		if action != nil && !r.Rules.Observe && !r.tooSoon(e.Entry, rep.Look.At.Boot) {
			settled = append(settled, *action)
		}
	}
	gate.Breaker = r.awake(rep, states) || gate.Breaker
	if gate.Breaker {
		settled = policy.Undoing(settled)
		for i := range rep.Parked {
			rep.Parked[i].Stop()
		}
	}
	plans := policy.Batches(settled)
	if !r.proven && slices.ContainsFunc(settled, func(a policy.Action) bool { return a.Kind == policy.Strip }) {
		// The first pod is confirmed by what this look saw; the rest may follow it at once.
		gate.Proven, gate.InWork = true, 0
	}
	r.heed(rep)
	gate.InWork += r.unfinished(rep, opt)
	given := map[string]bool{}
	ev, verdicts := slices.Concat(rep.Look.Pods, rep.Look.RuntimeOnly), slices.Concat(rep.Verdicts, rep.RuntimeOnly)
	parks := policy.MakePlan(ev, verdicts, rep.Look.Node, gate, r.Rules, func(uid parsers.PodUID, kind policy.ActionKind) string {
		suffix := ""
		if kind == policy.Clear {
			suffix = policy.LeafSuffix
		}
		name := freeEntry(uid, rep.Look.At.Wall.Unix(), suffix, func(name string) bool { return states[name] != nil || given[name] })
		given[name] = true
		return name
	})
	rep.Verdicts, rep.RuntimeOnly = verdicts[:len(rep.Verdicts)], verdicts[len(rep.Verdicts):]
	for _, p := range append(plans, parks...) {
		rep.Planned = append(rep.Planned, p.Actions...)
	}
	return append(plans, parks...)
}

// freeEntry names a pod in quarantine: by the time, or by the next number that no entry has.
// The clock may have been set back, and a pod may come twice in one second; an intent under
// the name of another entry would take its place in the ledger.
func freeEntry(uid parsers.PodUID, at int64, suffix string, taken func(string) bool) string {
	for ; ; at++ {
		name := string(uid) + "." + strconv.FormatInt(at, 10) + suffix
		if !taken(name) {
			return name
		}
	}
}

// remember keeps the holds of all pods that this look has seen, and what the kubelet said.
func (r *Reaper) remember(rep *Report, opt Options) {
	holds := map[parsers.PodUID]policy.Hold{}
	if len(opt.Only) > 0 {
		maps.Copy(holds, r.memory.Holds) // what this look has not seen stays
	}
	told := map[parsers.PodUID]string{}
	for _, v := range slices.Concat(rep.Verdicts, rep.RuntimeOnly) {
		delete(holds, v.UID)
		if v.UID != "" && v.Hold != (policy.Hold{}) {
			holds[v.UID] = v.Hold
		}
		if t, ok := r.memory.Told[v.UID]; ok {
			told[v.UID] = t
		}
	}
	if len(opt.Only) > 0 {
		told = r.memory.Told
	}
	if len(opt.Only) > 0 {
		for uid, name := range r.memory.Names {
			if _, ok := rep.names[uid]; !ok {
				rep.names[uid] = name
			}
		}
	}
	changed := !maps.Equal(holds, r.memory.Holds) || !maps.Equal(rep.names, r.memory.Names) || r.memory.NetworkDown == rep.Look.At
	r.memory.Holds, r.memory.Told, r.memory.Names = holds, told, rep.names
	if r.Store == nil || (!changed && len(opt.Claims) == 0 && !rep.CNI.Swept) {
		return
	}
	for name, v := range map[string]any{"holds": r.memory, "heard": r.heard} {
		if err := r.Store.Save(name, v); err != nil {
			// Nothing is lost: after a restart the hold begins anew.
			r.Log.Error("cannot keep what the look found; after a restart every hold begins anew", slog.String("name", name), slog.Any("error", err))
		}
	}
}
