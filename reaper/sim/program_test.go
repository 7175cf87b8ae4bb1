package sim

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// program is orphan-reaper, as a daemon and as the commands of an operator.
type program struct {
	up     bool
	began  time.Duration
	busy   bool // in a pass, or a command
	daemon *reaper.Daemon
	store  *state.Store
	orders []func() // commands that wait for the pass to end
	plant  plant
}

// killed ends a pass of the program wherever it is.
type killed struct{}

// due is when the program's next pass is, on the clock since the boot.
func (p *program) due() time.Duration {
	if !p.up || p.busy {
		return 0
	}
	return p.daemon.Due()
}

// reaper returns the loop on this node, with a state directory that it has opened anew.
func (n *node) reaper() (*reaper.Reaper, *state.Store, error) {
	store, err := state.OpenIn(n.state, state.Options{CompactBytes: 3 << 10, KeepRecords: 2})
	if err != nil {
		return nil, nil, err
	}
	r := &reaper.Reaper{
		Prober: prober{n}, Remover: remover{n}, Ledger: ledger{store, n}, Store: store, Clock: n, Recorder: recorder{n}, Meter: meter{},
		Log: slog.New(slog.DiscardHandler), Rules: n.rules,
		BatchSize: 2, // a pass over few pods then has several batches
	}
	r.Rules.Observe = n.observes
	n.cniSweeps(r, store)
	return r, store, r.Load()
}

// start starts the program. What cannot start is started again, as systemd does.
func (n *node) start() {
	p := &n.program
	if p.up {
		return
	}
	r, store, err := n.reaper()
	if err != nil {
		n.tell("the program cannot start: %v", err)
		n.after(10*time.Second, n.start)
		return
	}
	n.tell("the program starts")
	p.up, p.began, p.store = true, n.now, store
	n.oracle.starts()
	p.daemon = &reaper.Daemon{Reaper: r, Parse: n.log.parse, Status: func(string) {}, Checkpoint: func() {}}
	p.daemon.Ended = func(_ uint64, rep reaper.Report, _ error) { n.oracle.report = rep }
	p.daemon.Begin()
	n.log.rotate()
}

// kill ends the program, in the middle of whatever it does, and starts it again after d.
func (n *node) kill(d time.Duration) {
	p := &n.program
	if !p.up {
		return
	}
	n.tell("the program is killed")
	p.up = false
	n.undoes()
	n.after(d, n.start)
	if p.busy {
		panic(killed{})
	}
}

// guarded does what a kill may cut short.
func (n *node) guarded(do func()) {
	n.program.busy = true
	defer func() {
		n.program.busy = false
		if v := recover(); v != nil {
			if _, ok := v.(killed); !ok {
				panic(v)
			}
			for _, f := range n.state.files { // the kernel drops the locks of a process that has ended
				f.locked = false
			}
		}
	}()
	do()
}

// turn is one pass of the daemon, and then the commands that waited for its lock.
func (n *node) turn() {
	lines := len(n.story)
	n.tell("a look begins")
	n.guarded(func() {
		if err := n.program.daemon.Turn(context.Background()); err != nil {
			n.tell("the program ends: %v", err)
			n.program.up = false
			n.after(time.Second, n.start)
		}
		if len(n.story) == lines+1 { // one in which nothing happens is no part of the story
			n.story = n.story[:lines]
		} else {
			n.tell("the pass ends")
		}
	})
	n.oracle.passed(n)
	orders := n.program.orders
	n.program.orders = nil
	for _, order := range orders {
		n.guarded(order)
	}
}

// order is a command of the operator.
func (n *node) order(do func(r *reaper.Reaper, ctx context.Context) error, words string) {
	command := func() {
		r, _, err := n.reaper()
		if err == nil {
			err = do(r, context.Background())
		}
		n.oracle.cutShort = n.oracle.cutShort || len(n.oracle.unclosed) > 0
		n.tell("the operator: %s: %v", words, err)
	}
	if n.program.busy {
		n.program.orders = append(n.program.orders, command)
		return
	}
	n.guarded(command)
}

// shown is what quarantine list shows of a pod.
func (n *node) shown(r *reaper.Reaper, uid parsers.PodUID) []policy.EntryState {
	names, _ := r.Remover.List()
	entries := r.Ledger.Entries()
	all := append(policy.Listed(entries), decide.Unlisted(names, entries)...)
	return slices.DeleteFunc(all, func(e policy.EntryState) bool { return e.UID != uid })
}

// restore has the operator put a pod back.
func (n *node) restore(p *pod) {
	n.order(func(r *reaper.Reaper, ctx context.Context) error {
		n.oracle.person = true
		defer func() { n.oracle.person = false }()
		_, err := r.Restore(ctx, p.uid, n.shown(r, p.uid))
		return err
	}, "quarantine restore "+p.name.Name)
}

// purge has the operator remove for good what lies in quarantine of a pod.
func (n *node) purge(p *pod) {
	n.order(func(r *reaper.Reaper, ctx context.Context) error {
		n.oracle.person = true
		defer func() { n.oracle.person = false }()
		_, err := r.PurgeEntries(ctx, p.uid, n.shown(r, p.uid), false)
		return err
	}, "quarantine purge "+p.name.Name)
}

func (n *node) resume() {
	n.order(func(r *reaper.Reaper, ctx context.Context) error { return r.Resume(ctx) }, "quarantine resume")
}

func (n *node) forget(p *pod) {
	n.order(func(r *reaper.Reaper, ctx context.Context) error {
		_, err := r.Forget(ctx, []parsers.PodUID{p.uid})
		return err
	}, "quarantine forget "+p.name.Name)
}

// scan has the operator look, which leaves no trace.
func (n *node) scan() {
	n.order(func(r *reaper.Reaper, ctx context.Context) error {
		was := n.state.copied()
		n.oracle.scans = true
		defer func() { n.oracle.scans = false }()
		_, err := r.Pass(ctx, reaper.Options{DryRun: true})
		if !maps.EqualFunc(was, n.state.copied(), slices.Equal) {
			n.oracle.fail(n, "a scan changed the state directory")
		}
		return err
	}, "scan")
}

// ledger is the real one, and the oracle reads along.
type ledger struct {
	*state.Store
	n *node
}

func (l ledger) Append(records ...policy.Record) ([]policy.Record, error) {
	l.n.pass(l.n.between(0, 10*time.Millisecond))
	l.n.reach(stepAppend, "")
	written, err := l.Store.Append(records...)
	for _, r := range written {
		l.n.oracle.written(l.n, r)
		if r.Kind == policy.KindCNIRemoving {
			l.n.reach(stepSweep, "")
		}
		if r.Kind == policy.KindParking {
			l.n.reach(stepIntent, r.UID)
		}
	}
	return written, err
}

// recorder shows records to people.
type recorder struct{ n *node }

func (t recorder) Record(r policy.Record) error {
	if t.n.telling {
		t.n.tell("record %s of %s: %v", r.Kind, t.n.byUID[r.UID], r.Why)
	}
	return nil
}

type meter struct{}

func (meter) CNI(*cni.Census)                                  {}
func (meter) Success(policy.Instant)                           {}
func (meter) Sighting(parsers.Report)                          {}
func (meter) Look(policy.Look, []policy.Judged, time.Duration) {}
func (meter) Outcome(policy.Outcome)                           {}
func (meter) Quarantine(map[string]*policy.EntryState)         {}
func (meter) Breaker(bool)                                     {}
func (meter) Quiet(int64)                                      {}
func (meter) Slow()                                            {}
func (meter) Flush() error                                     { return nil }
