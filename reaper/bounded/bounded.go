package bounded

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Guard runs work that may hang in the kernel: a file system whose server is gone keeps
// a thread beyond SIGKILL. Each key has at most one such thread,
// and all keys together have at most mostStuck. The zero value is ready.
type Guard struct {
	// Patience is how long the work of Do and On may take; 0 is usualPatience.
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
	// ErrHangs is returned for work that began and did not end in time.
	ErrHangs = errors.New("it did not answer in time")
	// ErrStuck is returned for work that was not begun.
	ErrStuck = errors.New("it has not answered since an earlier look")
)

// Discarder is a result that holds something open: one that comes too late is discarded.
type Discarder interface{ Discard() }

// Do runs work in a goroutine of its own and abandons it when the guard's patience or
// ctx ends. work must share nothing with its caller but its result.
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

// Within is Do with a time of its own.
func Within[T any](ctx context.Context, g *Guard, key string, limit time.Duration, work func() T) (T, error) {
	r := Runner[T]{Guard: g}
	defer r.Close()
	return r.Within(ctx, key, limit, work)
}

// Limit returns the guard's patience.
func (g *Guard) Limit() time.Duration { return cmp.Or(g.Patience, usualPatience) }

// Stuck returns how many goroutines have not ended.
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

// Handle is an open directory that outlives a look for as long as a stuck goroutine still
// uses it: its number must not name another file meanwhile.
type Handle struct {
	FD   int
	mu   sync.Mutex
	uses int
}

// NewHandle takes fd over, with one reference, the caller's. It is closed when none is left.
func NewHandle(fd int) *Handle { return &Handle{FD: fd, uses: 1} }

// Discard gives up the only reference to a handle that came too late.
func (h *Handle) Discard() { h.Unref() }

// Ref adds a reference: the handle stays open until one more Unref. A nil handle is one that is not
// there.
func (h *Handle) Ref() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses++
}

// Unref gives up one reference.
func (h *Handle) Unref() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses--; h.uses == 0 {
		_ = unix.Close(h.FD) // it was only read from: there is nothing to lose in an error
	}
}

// On is Do for work on an open directory.
func On[T any](ctx context.Context, g *Guard, key string, h *Handle, work func(fd int) T) (T, error) {
	r := Runner[T]{Guard: g}
	defer r.Close()
	return r.On(ctx, key, h, work)
}
