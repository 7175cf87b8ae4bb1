// Package progress counts the work that a person waits for. The room that does the work counts it; who
// shows it reads the counters when it likes. A Work travels in a context, as an httptrace.ClientTrace
// does, so that no room hands it on.
//
// In the daemon nobody waits. There From returns nil, and the methods of a nil Work return at once.
//
// It draws nothing, decides nothing, and knows no terminal and no clock.
package progress

import (
	"context"
	"sync/atomic"
)

// Units with a meaning of their own. Every other one is a noun: file, entry, node.
const (
	Bytes = "byte" // shown in KiB, MiB and so on
	Wait  = "wait" // nothing is counted: the total is how many nanoseconds to wait
)

// Work is what one command does, part by part. Begin and End are for one goroutine, Add and
// Expect for any.
type Work struct {
	phase atomic.Pointer[Phase]
	turn  func(ended, begun *Phase)
}

// Phase is one part of the work.
type Phase struct {
	What string // what is done, as people read it: "looking at the node"
	Unit string // of what is counted, "" where nothing is

	done, total atomic.Int64
}

// New returns a Work. turn is told which phase ended and which began, either of them nil where
// there is none; nil tells nobody.
func New(turn func(ended, begun *Phase)) *Work { return &Work{turn: turn} }

type key struct{}

// With returns a context that carries w.
func With(ctx context.Context, w *Work) context.Context { return context.WithValue(ctx, key{}, w) }

// From returns the Work that ctx carries, nil where nobody waits.
func From(ctx context.Context) *Work {
	w, _ := ctx.Value(key{}).(*Work)
	return w
}

// Begin ends the phase before and begins another. total is how much there is to do, 0 where that
// is not known.
func (w *Work) Begin(what, unit string, total int64) {
	if w == nil {
		return
	}
	p := &Phase{What: what, Unit: unit}
	p.total.Store(total)
	w.change(p)
}

// End ends the phase.
func (w *Work) End() {
	if w != nil {
		w.change(nil)
	}
}

func (w *Work) change(to *Phase) {
	ended := w.phase.Swap(to)
	if w.turn != nil && (ended != nil || to != nil) {
		w.turn(ended, to)
	}
}

// Add says that n more are done.
func (w *Work) Add(n int64) {
	if w == nil {
		return
	}
	if p := w.phase.Load(); p != nil {
		p.done.Add(n)
	}
}

// Expect says that there are n more to do than was known.
func (w *Work) Expect(n int64) {
	if w == nil {
		return
	}
	if p := w.phase.Load(); p != nil {
		p.total.Add(n)
	}
}

// Counts returns how much is done, and how much there is to do or 0.
func (p *Phase) Counts() (done, total int64) { return p.done.Load(), p.total.Load() }
