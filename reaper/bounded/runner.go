package bounded

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Runner is Do for one piece of work after the other, each with a key and the time of its own. They
// share a goroutine, and so its stack, until one does not answer: that one keeps it, and the next
// gets another. A Runner is used by one goroutine, which closes it.
type Runner[T any] struct {
	Guard *Guard

	jobs  chan job[T]
	done  chan T // unbuffered: an answer is received, or it is late
	timer *time.Timer
}

type job[T any] struct {
	key  string
	work func() T
	left chan struct{} // closed when the answer is no longer waited for
}

// On is bounded.On on the runner's goroutine.
func (r *Runner[T]) On(ctx context.Context, key string, h *Handle, work func(fd int) T) (T, error) {
	h.Ref()
	v, err := r.Within(ctx, key, r.Guard.Limit(), func() T {
		defer h.Unref()
		return work(h.FD)
	})
	if errors.Is(err, ErrStuck) {
		h.Unref() // work has not begun
	}
	return v, err
}

// Close lets the goroutine end.
func (r *Runner[T]) Close() {
	if r.jobs != nil {
		close(r.jobs)
		r.jobs = nil
	}
}

// Within is bounded.Within on the runner's goroutine.
func (r *Runner[T]) Within(ctx context.Context, key string, limit time.Duration, work func() T) (T, error) {
	var zero T
	if !r.Guard.begin(key) {
		return zero, ErrStuck
	}
	if r.jobs == nil {
		r.jobs, r.done = make(chan job[T]), make(chan T)
		go serve(r.Guard, r.jobs, r.done)
	}
	left := make(chan struct{})
	r.jobs <- job[T]{key, work, left}
	if r.timer == nil {
		r.timer = time.NewTimer(limit)
	} else {
		r.timer.Reset(limit)
	}
	defer r.timer.Stop()
	err := ErrHangs
	select {
	case v := <-r.done:
		return v, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.timer.C:
	}
	close(left)
	r.Close()
	return zero, err
}

func serve[T any](g *Guard, jobs <-chan job[T], done chan<- T) {
	for j := range jobs {
		v := j.work()
		g.end(j.key) // before the answer: the next look may come at once
		select {
		case done <- v:
		case <-j.left:
			if d, ok := any(v).(Discarder); ok {
				d.Discard()
			}
		}
	}
}

// OnOwnThread runs f on an OS thread that ends with it: the goroutine never unlocks, so the
// runtime throws the thread away with whatever namespace or Landlock domain it is in. The process's first thread
// cannot end and stands for the process in /proc, so it is not used.
func OnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		done := make(chan struct{})
		OnOwnThread(func() {
			defer close(done)
			f()
		})
		<-done
		runtime.UnlockOSThread()
	}()
}
