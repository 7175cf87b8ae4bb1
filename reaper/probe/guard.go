package probe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// guard runs work that may hang in the kernel: a file system whose server is gone keeps
// a thread beyond SIGKILL. Each key has at most one such thread, however often it is
// asked for, and all keys together have at most mostStuck.
type guard struct {
	mu   sync.Mutex
	busy map[string]bool
}

// mostStuck bounds the threads that hang for ever, one for each pod that hangs.
const mostStuck = 32

var (
	errHangs = errors.New("it did not answer in time")
	errStuck = errors.New("it has not answered since an earlier look")
)

// discarder is an answer that holds something open: one that comes too late is closed.
type discarder interface{ discard() }

// guarded runs work in a goroutine of its own and leaves it behind when limit or ctx
// ends. work must share nothing with its caller but what it returns.
func guarded[T any](ctx context.Context, g *guard, key string, limit time.Duration, work func() T) (T, error) {
	var zero T
	if !g.begin(key) {
		return zero, errStuck
	}
	done := make(chan T) // unbuffered: an answer is taken, or it is late
	left := make(chan struct{})
	go func() {
		v := work()
		g.end(key) // before the answer: the next look may come at once
		select {
		case done <- v:
		case <-left:
			if d, ok := any(v).(discarder); ok {
				d.discard()
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	defer close(left)
	select {
	case v := <-done:
		return v, nil
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-timer.C:
		return zero, errHangs
	}
}

func (g *guard) begin(key string) bool {
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

func (g *guard) end(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, key)
}

// handle is an open directory that outlives a look for as long as a stuck goroutine still
// uses it: its number must not name another file meanwhile.
type handle struct {
	fd   int
	mu   sync.Mutex
	uses int
}

func newHandle(fd int) *handle { return &handle{fd: fd, uses: 1} }

func (h *handle) hold() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses++
}

func (h *handle) drop() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses--; h.uses == 0 {
		closeFD(h.fd)
	}
}

// guardedOn is guarded for work on an open directory.
func guardedOn[T any](ctx context.Context, g *guard, key string, limit time.Duration, h *handle, work func(fd int) T) (T, error) {
	h.hold()
	v, err := guarded(ctx, g, key, limit, func() T {
		defer h.drop()
		return work(h.fd)
	})
	if errors.Is(err, errStuck) {
		h.drop() // work has not begun
	}
	return v, err
}
