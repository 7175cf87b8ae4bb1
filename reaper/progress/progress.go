// Package progress counts the work that an operator waits for. The package that does the work adds to a Work; the command
// line reads it. A context carries the Work, as it carries an httptrace.ClientTrace.
//
// The daemon has no reader of progress: From returns nil there, and the methods of a nil Work do nothing.
//
// The package prints nothing.
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
	Unit  string // a noun for what is counted, "" if nothing is
	Total int64  // how much there is to do, 0 if that is unknown
	Began time.Time

	done atomic.Int64
}

// Done returns how much is done.
func (p *Phase) Done() int64 { return p.done.Load() }

// New returns a Work that calls ended at the end of each phase.
func New(now func() time.Time, ended func(*Phase)) *Work { return &Work{now: now, ended: ended} }

type key struct{}

// With returns a context that carries w.
func With(ctx context.Context, w *Work) context.Context { return context.WithValue(ctx, key{}, w) }

// From returns the Work that ctx carries, nil if there is none.
func From(ctx context.Context) *Work {
	w, _ := ctx.Value(key{}).(*Work)
	return w
}

// Begin ends the current phase and begins another.
func (w *Work) Begin(what, unit string, total int64) {
	if w != nil {
		w.replace(&Phase{What: what, Unit: unit, Total: total, Began: w.now()})
	}
}

// End ends the current phase.
func (w *Work) End() {
	if w != nil {
		w.replace(nil)
	}
}

func (w *Work) replace(next *Phase) {
	if last := w.phase.Swap(next); last != nil {
		w.ended(last)
	}
}

// Add counts n more as done.
func (w *Work) Add(n int64) {
	if p := w.Phase(); p != nil {
		p.done.Add(n)
	}
}

// Phase returns the current phase, nil if there is none.
func (w *Work) Phase() *Phase {
	if w == nil {
		return nil
	}
	return w.phase.Load()
}
