package reaper_test

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
)

// program is orphan-reaper, as a daemon and as the commands of an operator.
type program struct {
	up, busy bool
	began    time.Duration
	daemon   *reaper.Daemon
	store    *ledger.Store
	lines    []parsers.Line // that came during a pass
	orders   []func()       // commands that wait for the pass to end
	stop     context.CancelFunc
	stopped  time.Duration // more than 0: it ends politely, and starts again after this time
	changed  time.Duration // when something was written or changed last
	status   reaper.Status // of the last pass
	passes   int
}

// killed ends a pass of the program at any call.
type killed struct{}

// due returns when the program's next pass is due, on the clock of the boot.
func (p *program) due() (time.Duration, bool) {
	if !p.up || p.busy {
		return 0, false
	}
	return p.daemon.Due(), true
}

// newLoop returns a loop on this node, with a state directory that it has opened anew.
func (n *node) newLoop() (*reaper.Loop, *ledger.Store, error) {
	store, err := ledger.OpenIn(n.memory, ledger.Options{CompactBytes: 4 << 10, KeepEvents: 2})
	if err != nil {
		return nil, nil, err
	}
	return &reaper.Loop{
		Scanner: scanner{n}, Disk: disk{n}, Ledger: simLedger{store, n}, Clock: n, Recorder: recorder{n}, Meter: meter{},
		Log: slog.New(slog.DiscardHandler), Settings: n.settings,
	}, store, nil
}

// start starts the program. What cannot start is started again, as systemd does.
func (n *node) start() {
	p := &n.program
	if p.up {
		return
	}
	var l *reaper.Loop
	var err error
	n.guarded(func() { l, p.store, err = n.newLoop() })
	if err != nil || l == nil {
		n.tell("the program cannot start: %v", err)
		n.after(10*time.Second, n.start)
		return
	}
	n.tell("the program starts")
	p.up, p.began, p.lines = true, n.now, nil
	n.oracle.starts(n)
	p.daemon = &reaper.Daemon{Loop: l, Parse: parsers.Parse}
	p.daemon.Ended = func(_ uint64, s reaper.Status, _ error) { p.status = s }
	p.daemon.Begin()
}

// kill ends the program in the middle of whatever it does, and starts it again after d.
func (n *node) kill(d time.Duration) {
	p := &n.program
	if !p.up {
		return
	}
	n.tell("the program is killed")
	p.up, n.trouble = false, n.now
	n.after(d, n.start)
	if p.busy {
		panic(killed{})
	}
}

// stop ends the program politely.
func (n *node) stop(d time.Duration) {
	p := &n.program
	if !p.up || p.stopped > 0 {
		return
	}
	n.tell("the program is asked to end")
	if !p.busy {
		p.up = false
		n.after(d, n.start)
		return
	}
	p.stopped = d
	p.stop()
}

// guarded does what a kill may cut short. The program may start while a command of the operator is under way.
func (n *node) guarded(do func()) {
	was := n.program.busy
	n.program.busy = true
	defer func() {
		n.program.busy = was
		if v := recover(); v != nil {
			if _, ok := v.(killed); !ok {
				panic(v)
			}
			for _, f := range n.memory.files { // the kernel drops the locks of a process that has ended
				f.locked = false
			}
		}
	}()
	do()
}

// turn is one pass of the daemon, and then the commands that waited for its lock.
func (n *node) turn() {
	p := &n.program
	n.guarded(func() {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		p.stop = stop
		p.passes++
		n.tell("a pass begins")
		if err := p.daemon.Turn(ctx); err != nil {
			n.tell("a pass fails: %v", err)
		}
		n.oracle.passed(n)
	})
	if p.stopped > 0 {
		if p.up {
			n.oracle.stopped(n)
			p.up = false
			n.after(p.stopped, n.start)
		}
		p.stopped = 0
	}
	for _, line := range p.lines {
		if p.up {
			p.daemon.Read(line)
		}
	}
	p.lines = nil
	orders := p.orders
	p.orders = nil
	for _, order := range orders {
		n.guarded(order)
	}
}

// order is a command of the operator. It waits for the lock of a pass.
func (n *node) order(what kind, p *pod) {
	command := func() {
		n.oracle.order = what
		defer func() { n.oracle.order = 0 }()
		l, _, err := n.newLoop()
		if err == nil {
			err = n.obey(l, what, p)
		}
		n.tell("the operator: command %d about %s: %v", what, p, err)
	}
	if n.program.busy {
		n.program.orders = append(n.program.orders, command)
		return
	}
	n.guarded(command)
}

func (n *node) obey(l *reaper.Loop, what kind, p *pod) (err error) {
	ctx := context.Background()
	switch what { //nolint:exhaustive // the others are no commands
	case operatorRestores, operatorReplaces:
		_, err = l.Restore(ctx, p.uid, what == operatorReplaces, &judge.User{Login: "ann"})
	case operatorPurges:
		_, err = l.Purge(ctx, []parsers.PodUID{p.uid}, &judge.User{Login: "ann"})
	case operatorResumes:
		_, err = l.Resume(ctx, nil)
	case operatorScans:
		(&reaper.Daemon{Loop: l, Parse: parsers.Parse}).Once(ctx, reaper.Options{}, func(reaper.Status) {})
	case operatorSweeps: // it releases what an operator has restored; the rest is the daemon's pass
		_, err = l.Pass(ctx, reaper.Options{Order: true, Lift: []parsers.PodUID{p.uid}})
	}
	return err
}

// simLedger is the real one, and the oracle reads along.
type simLedger struct {
	*ledger.Store
	n *node
}

// Append is reaper.Ledger's.
func (l simLedger) Append(events ...judge.Event) ([]judge.Event, error) {
	n := l.n
	n.pass(n.between(0, 10*time.Millisecond))
	n.reach(stepAppend, "")
	n.program.changed = n.now
	written, err := l.Store.Append(events...)
	for _, e := range written {
		n.oracle.written(n, e, written)
	}
	for _, e := range written {
		if e.Kind == judge.EventMoving {
			n.reach(stepIntent, e.UID)
		}
	}
	return written, err
}

// recorder is the journal.
type recorder struct{ n *node }

// Record is reaper.Recorder's.
func (r recorder) Record(e judge.Event) error {
	if r.n.faults[journalFails] > 0 {
		r.n.trouble = r.n.now
		return errors.New("no journal")
	}
	r.n.tell("record: %s %s %v %s", e.Kind, r.n.byUID[e.UID], e.Reasons, e.Err)
	r.n.oracle.recorded(r.n, e)
	return nil
}

// meter counts nothing.
type meter struct{}

func (meter) Status(reaper.Status, time.Duration) {}
func (meter) Event(judge.Event)                   {}
func (meter) Hangs(bool)                          {}
