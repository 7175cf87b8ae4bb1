// Package progress counts the work that an operator waits for. The room that does the work counts it; the command line
// reads the counters when it likes. A Work travels in a context, as an httptrace.ClientTrace does, so that no room
// passes it on.
//
// In the daemon no user waits: From returns nil there, and the methods of a nil Work return at once.
//
// It draws nothing, decides nothing, and knows no terminal.
package progress

import (
	"context"
	"sync/atomic"
	"time"
)

// Work is what one command does, phase by phase. Begin and End are for one goroutine, Add and Phase for any.
type Work struct {
	now   func() time.Time
	ended func(*Phase)
	phase atomic.Pointer[Phase]
}

// Phase is one part of the work.
type Phase struct {
	What  string // as an operator reads it: "looking at the node"
	Unit  string // a noun for what is counted, "" where nothing is
	Total int64  // how much there is to do, 0 where that is not known
	Began time.Time

	done atomic.Int64
}

// Done returns how much is done.
func (p *Phase) Done() int64 { return p.done.Load() }

// New returns a Work. ended is called with each phase that has ended.
func New(now func() time.Time, ended func(*Phase)) *Work { return &Work{now: now, ended: ended} }

type key struct{}

// With returns a context that carries w.
func With(ctx context.Context, w *Work) context.Context { return context.WithValue(ctx, key{}, w) }

// From returns the Work that ctx carries, nil where no user waits.
func From(ctx context.Context) *Work {
	w, _ := ctx.Value(key{}).(*Work)
	return w
}

// Begin ends the phase before and begins another. total is how much there is to do, 0 where that is not known.
func (w *Work) Begin(what, unit string, total int64) {
	if w != nil {
		w.change(&Phase{What: what, Unit: unit, Total: total, Began: w.now()})
	}
}

// End ends the phase.
func (w *Work) End() {
	if w != nil {
		w.change(nil)
	}
}

func (w *Work) change(to *Phase) {
	if ended := w.phase.Swap(to); ended != nil {
		w.ended(ended)
	}
}

// Add counts n more as done.
func (w *Work) Add(n int64) {
	if p := w.Phase(); p != nil {
		p.done.Add(n)
	}
}

// Phase returns the current phase, nil where there is none.
func (w *Work) Phase() *Phase {
	if w == nil {
		return nil
	}
	return w.phase.Load()
}
