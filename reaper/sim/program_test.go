package sim

import (
	"cmp"
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
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// program is orphan-reaper, as a daemon and as the commands of an operator.
type program struct {
	up     bool
	began  time.Duration
	busy   bool // in a start, a pass or a command, which has a lock
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
	was := p.busy // by a command
	p.busy = true
	r, store, err := n.reaper()
	if p.busy = was; !was {
		defer n.obeyWaiting()
	}
	if err != nil {
		n.tell("the program cannot start: %v", err)
		n.after(10*time.Second, n.start)
		return
	}
	n.tell("the program starts")
	p.up, p.began, p.store = true, n.now, store
	n.oracle.starts(n)
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
	n.breaks()
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
	n.obeyWaiting()
}

// obeyWaiting carries out the commands that waited for a lock.
func (n *node) obeyWaiting() {
	orders := n.program.orders
	n.program.orders = nil
	for _, order := range orders {
		n.guarded(order)
	}
}

// order is a command of the operator. It waits for the lock of a pass.
func (n *node) order(what kind, p *pod) {
	command := func() {
		n.oracle.person, n.oracle.scans = what != operatorScans, what == operatorScans
		defer func() { n.oracle.person, n.oracle.scans = false, false }()
		r, _, err := n.reaper()
		if err == nil {
			err = n.obey(r, what, p)
		}
		n.tell("the operator: %s (%s): %v", commands[what], p, err)
	}
	if n.program.busy {
		n.program.orders = append(n.program.orders, command)
		return
	}
	n.guarded(command)
}

var commands = map[kind]string{
	operatorRestores: "quarantine restore", operatorPurges: "quarantine purge", operatorResumes: "quarantine resume",
	operatorForgets: "quarantine forget", operatorScans: "scan",
}

// obey carries out a command. A scan leaves no trace.
func (n *node) obey(r *reaper.Reaper, what kind, p *pod) (err error) {
	ctx, was := context.Background(), n.state.copied()
	switch what { //nolint:exhaustive // the others are no commands
	case operatorRestores:
		_, err = r.Restore(ctx, p.uid, n.shown(r, p.uid))
	case operatorPurges:
		var failed map[parsers.PodUID]error
		_, failed, err = r.PurgeEntries(ctx, []parsers.PodUID{p.uid}, n.shown(r, p.uid), false)
		err = cmp.Or(err, failed[p.uid])
	case operatorResumes:
		err = r.Resume(ctx)
	case operatorForgets:
		_, err = r.Forget(ctx, []parsers.PodUID{p.uid})
	case operatorScans:
		boots := n.boots
		if _, err = r.Pass(ctx, reaper.Options{DryRun: true}); n.boots == boots && !maps.EqualFunc(was, n.state.copied(), slices.Equal) {
			n.oracle.fail(n, "a scan changed the state directory")
		}
	}
	return err
}

// shown is what quarantine list shows of a pod.
func (n *node) shown(r *reaper.Reaper, uid parsers.PodUID) []policy.EntryState {
	names, _ := r.Remover.List()
	entries := r.Ledger.Entries()
	all := append(policy.Listed(entries), decide.Unlisted(names, entries)...)
	return slices.DeleteFunc(all, func(e policy.EntryState) bool { return e.UID != uid })
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

// meter counts nothing.
type meter struct{ testkit.Meter }

func (meter) CNI(*cni.Census) {}
