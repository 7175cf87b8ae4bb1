package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

var (
	errNoPermit = errors.New("this process may not change the node now")
	errNoID     = errors.New("the plan does not identify the directory that was judged")
	errBusy     = errors.New("another orphan-reaper is at work in the quarantine; try again")
)

// Execute carries out the moves on a thread of its own, one after the other, and returns one outcome for each in the same
// order. What it returns is synced. A move that the permit does not allow is Refused. When ctx ends, the current move stops at
// its next step, and the rest is Refused; both are Stopped.
//
// Execute waits for a system call that does not return: a batch is never abandoned while it may still change the disk. Stuck
// reports the path.
func (q *Quarantine) Execute(ctx context.Context, permit judge.Permit, moves []judge.Move) []judge.Outcome {
	outs := make([]judge.Outcome, len(moves))
	var todo []int
	for i, m := range moves {
		outs[i] = refuse(m, errNoPermit)
		if m.Action == judge.Restore || m.Action == judge.Exchange {
			if permit.MayRestore() {
				todo = append(todo, i)
			}
		} else if permit.MayRemove() {
			todo = append(todo, i)
		}
	}
	if len(todo) == 0 {
		return outs
	}
	q.running.Lock()
	defer q.running.Unlock()
	b := &batch{q: q, moves: moves, todo: todo, outs: outs}
	done := make(chan struct{})
	bounded.OnOwnThread(func() {
		defer close(done)
		b.run(ctx)
	})
	<-done
	q.at(nil, "")
	for _, err := range b.notes { // not on the batch's thread: Landlock may keep it from logging
		q.log.WarnContext(ctx, "a manifest could not be written or removed", errAttr(err))
	}
	return outs
}

// batch is one Execute.
type batch struct {
	*handles
	q      *Quarantine
	moves  []judge.Move
	todo   []int // indexes of the permitted moves
	outs   []judge.Outcome
	walker fdpath.Walker
	// target is the directory that the last renames led to, and unsynced has the directories whose names have changed.
	target   *fdpath.Level
	unsynced []*fdpath.Level
	notes    []error
}

func (b *batch) run(ctx context.Context) {
	into := b.any(judge.Quarantine)
	b.handles = b.q.openHandles(into)
	defer b.close()
	grants := []*fdpath.Level{b.quar}
	if into || b.any(judge.Restore) || b.any(judge.Exchange) {
		// A batch that only removes gets no right to the pods directory, so it cannot change a tree that is moved there.
		grants = append(grants, b.pods)
	}
	err := b.q.landlock.restrict(b.q, grants...)
	if err == nil {
		err = b.lock()
	}
	begun := 0 // outcomes before this index are synced
	for n, i := range b.todo {
		m := b.moves[i]
		switch {
		case err != nil:
			b.outs[i] = refuse(m, err)
		case ctx.Err() != nil:
			b.outs[i] = stopped(refuse(m, ctx.Err()))
		default:
			if t := b.targetOf(m.Action); t != nil && t != b.target {
				b.sync(b.todo[begun:n])
				begun, b.target = n, t
			}
			inner, end := span.Start(ctx, string(m.Action), "pod", string(m.UID))
			b.outs[i] = b.one(inner, m)
			end(failure(b.outs[i]))
		}
	}
	b.sync(b.todo[begun:])
}

// failure returns the error of an outcome, for tracing.
func failure(o judge.Outcome) error {
	if o.Err == "" {
		return nil
	}
	return errors.New(o.Err)
}

func (b *batch) any(a judge.Action) bool {
	return slices.ContainsFunc(b.todo, func(i int) bool { return b.moves[i].Action == a })
}

// lock keeps a second process, such as an operator's restore beside the daemon, from working in the quarantine at the same
// time. The kernel releases it when the handle is closed, however the process ends.
func (b *batch) lock() error {
	if b.quarErr != nil {
		return nil //nolint:nilerr // each move reports it
	}
	err := fdpath.Uninterrupted(func() error { return unix.Flock(b.quar.FD(), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	if err != nil {
		return fdpath.PathError("flock", b.quar.Name, err)
	}
	return nil
}

// one carries out one move.
func (b *batch) one(ctx context.Context, m judge.Move) judge.Outcome {
	if err := validate(m.UID, m.Entry); err != nil {
		return refuse(m, err)
	}
	if m.ID == (judge.FileID{}) {
		return refuse(m, errNoID)
	}
	switch m.Action {
	case judge.Quarantine:
		return b.quarantine(m)
	case judge.Restore:
		return b.restore(ctx, m)
	case judge.Exchange:
		return b.exchange(ctx, m)
	case judge.Clean, judge.Purge:
		return b.remove(ctx, m)
	case judge.Leave:
	}
	return refuse(m, fmt.Errorf("the action %q changes nothing", m.Action))
}

// A file system that persists the names of two directories independently may lose a rename's new name and keep the loss of
// its old one, and then the directory is lost. So the target of a rename is synced before its source, and both before a
// batch goes on in the other direction.

// targetOf returns the directory that the rename of a move leads to, nil for a removal.
func (b *batch) targetOf(a judge.Action) *fdpath.Level {
	switch a {
	case judge.Quarantine:
		return b.quar
	case judge.Restore, judge.Exchange:
		return b.pods
	case judge.Clean, judge.Purge, judge.Leave:
	}
	return nil
}

// changed notes directories that have to be synced.
func (b *batch) changed(dirs ...*fdpath.Level) {
	for _, d := range dirs {
		if !slices.Contains(b.unsynced, d) {
			b.unsynced = append(b.unsynced, d)
		}
	}
}

// sync syncs what has changed. If it cannot, the outcomes of these moves are Failed, since a power cut may undo them.
func (b *batch) sync(of []int) {
	err := b.flush()
	if err == nil {
		return
	}
	for _, i := range of {
		if o := &b.outs[i]; o.Result == judge.Done || o.Result == judge.Partly || o.Result == judge.Conflict {
			o.Result, o.Err = judge.Failed, err.Error()
		}
	}
}

// flush syncs what has changed, the target of the last renames first.
func (b *batch) flush() (failed error) {
	if i := slices.Index(b.unsynced, b.target); i > 0 {
		b.unsynced[0], b.unsynced[i] = b.unsynced[i], b.unsynced[0]
	}
	for _, d := range b.unsynced {
		b.q.at(d, "")
		if err := b.q.disk.sync(d.Dir); err != nil {
			failed = errors.Join(failed, fdpath.PathError("fsync", d.Name, err))
		}
	}
	b.unsynced = nil
	return failed
}

// rename moves a name.
func (b *batch) rename(from *fdpath.Level, name string, to *fdpath.Level, as string, flags uint) error {
	b.q.at(from, name)
	err := b.q.disk.rename(from.Dir, name, to.Dir, as, flags)
	if err == nil {
		b.changed(from, to)
	}
	return err
}

// refuse returns the outcome of a move that has changed nothing.
func refuse(m judge.Move, err error) judge.Outcome {
	return judge.Outcome{Move: m, Result: judge.Refused, Err: err.Error()}
}

// failed is refuse for a move that may have changed something.
func failed(m judge.Move, err error) judge.Outcome {
	return judge.Outcome{Move: m, Result: judge.Failed, Err: err.Error()}
}

// stopped marks the outcome of a move that ctx has ended.
func stopped(o judge.Outcome) judge.Outcome {
	o.Stopped = true
	return o
}

// progress is where a batch is.
type progress struct {
	mu    sync.Mutex
	level *fdpath.Level // nil if no batch runs
	entry string
	since time.Time
}

// at notes that the next system call is on this name of l. A call that changes the disk is preceded by it, and each step of
// a walk.
func (q *Quarantine) at(l *fdpath.Level, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.level, q.entry, q.since = l, name, q.clock()
}

// Stuck returns the path that the running batch is at, and for how long: a call of a healthy disk returns within seconds. It
// returns "" if no batch runs.
func (q *Quarantine) Stuck() (path string, since time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.level == nil {
		return "", 0
	}
	return pathOf(q.level, q.entry), q.clock().Sub(q.since)
}
