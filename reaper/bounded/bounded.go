package bounded

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Guard runs work that may hang in the kernel beyond SIGKILL. At most one thread hangs for each key, and at most mostStuck
// for all keys together. The zero value is ready.
type Guard struct {
	// Patience is the time limit of Do and On; 0 is usualPatience.
	Patience time.Duration

	mu   sync.Mutex
	busy map[string]bool
}

const (
	// mostStuck bounds the threads that hang forever, one for each pod that hangs.
	mostStuck = 32
	// usualPatience is how long one part of a look may take before its facts are Unknown.
	usualPatience = 10 * time.Second
)

var (
	// ErrHangs is returned for work that did not end in time.
	ErrHangs = errors.New("it did not answer in time")
	// ErrStuck is returned for work that was not begun, because earlier work hangs: with its key, or with too many others.
	ErrStuck = errors.New("it has not answered since an earlier look")
)

// Discarder is a result that holds something open. A result that comes too late is discarded.
type Discarder interface{ Discard() }

// Do runs work in a goroutine of its own, and abandons it when the guard's patience or ctx ends.
func Do[T any](ctx context.Context, g *Guard, key string, work func() T) (T, error) {
	return Within(ctx, g, key, g.Limit(), work)
}

// Try is Do for work that may fail.
func Try[T any](ctx context.Context, g *Guard, key string, work func() (T, error)) (T, error) {
	a, err := Do(ctx, g, key, func() result[T] {
		v, err := work()
		return result[T]{v, err}
	})
	return a.value, cmp.Or(err, a.err)
}

type result[T any] struct {
	value T
	err   error
}

func (r result[T]) Discard() {
	if d, ok := any(r.value).(Discarder); ok && r.err == nil {
		d.Discard()
	}
}

// Within is Do with another time limit.
func Within[T any](ctx context.Context, g *Guard, key string, limit time.Duration, work func() T) (T, error) {
	r := Runner[T]{Guard: g}
	defer r.Close()
	return r.Within(ctx, key, limit, work)
}

// Limit returns the guard's patience.
func (g *Guard) Limit() time.Duration { return cmp.Or(g.Patience, usualPatience) }

// Stuck returns the number of goroutines that have not ended.
func (g *Guard) Stuck() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.busy)
}

func (g *Guard) begin(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy[key] || len(g.busy) >= mostStuck {
		return false
	}
	if g.busy == nil {
		g.busy = map[string]bool{}
	}
	g.busy[key] = true
	return true
}

func (g *Guard) end(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, key)
}

// Handle is an open directory with a count of references. It stays open as long as a stuck goroutine uses it: meanwhile its
// number must not refer to another file. A nil Handle is valid.
type Handle struct {
	FD   int
	mu   sync.Mutex
	refs int
}

// NewHandle returns a handle of fd with one reference, the caller's. The last Unref closes fd.
func NewHandle(fd int) *Handle { return &Handle{FD: fd, refs: 1} }

// Discard drops the only reference to a handle that came too late.
func (h *Handle) Discard() { h.Unref() }

// Ref adds a reference.
func (h *Handle) Ref() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refs++
}

// Unref drops one reference.
func (h *Handle) Unref() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs--; h.refs == 0 {
		_ = unix.Close(h.FD) // nothing was written
	}
}

// On is Do for work on an open directory.
func On[T any](ctx context.Context, g *Guard, key string, h *Handle, work func(fd int) T) (T, error) {
	r := Runner[T]{Guard: g}
	defer r.Close()
	return r.On(ctx, key, h, work)
}
