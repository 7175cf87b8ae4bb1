package bounded

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Guard runs work that may hang in the kernel beyond SIGKILL. At most one thread hangs for each key, and at most mostStuck
// for all keys together. The zero value is ready.
type Guard struct {
	mu   sync.Mutex
	busy map[string]bool
}

const (
	// mostStuck bounds the threads that hang forever, one for each pod that hangs.
	mostStuck = 32
	// usualPatience is how long Try waits.
	usualPatience = 10 * time.Second
)

var (
	// ErrHangs is returned for work that did not end in time.
	ErrHangs = errors.New("it did not answer in time")
	// ErrStuck is returned for work that was not begun, because earlier work hangs: with its key, or with too many others.
	ErrStuck = errors.New("it has not answered since an earlier scan")
)

// Try is Within for work that may fail, with the usual time limit.
func Try[T any](ctx context.Context, g *Guard, key string, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	a, err := Within(ctx, g, key, usualPatience, func() result {
		v, err := work()
		return result{v, err}
	})
	return a.value, cmp.Or(err, a.err)
}

// Within runs work in a goroutine of its own, and abandons it after the time limit or when ctx ends.
func Within[T any](ctx context.Context, g *Guard, key string, limit time.Duration, work func() T) (T, error) {
	var zero T
	if !g.begin(key) {
		return zero, ErrStuck
	}
	done := make(chan T, 1) // a late result ends the goroutine, too
	go func() {
		v := work()
		g.end(key) // before the result is sent: the next scan may begin at once
		done <- v
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-done:
		return v, nil
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-timer.C:
		return zero, ErrHangs
	}
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
