package bounded

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Runner runs one piece of work after the other, each with its own key and time limit. They share a goroutine, and so its
// stack. Work that hangs keeps the goroutine, and the next work gets a new one. A Runner is used by one goroutine, which
// closes it.
type Runner[T any] struct {
	Guard *Guard

	jobs  chan job[T]
	done  chan T // unbuffered: a result is received, or it is late
	timer *time.Timer
}

type job[T any] struct {
	key       string
	work      func() T
	abandoned chan struct{} // closed at the time limit, or when ctx ends
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
	abandoned := make(chan struct{})
	r.jobs <- job[T]{key, work, abandoned}
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
	close(abandoned)
	r.Close()
	return zero, err
}

func serve[T any](g *Guard, jobs <-chan job[T], done chan<- T) {
	for j := range jobs {
		v := j.work()
		g.end(j.key) // before the result is sent: the next look may begin at once
		select {
		case done <- v:
		case <-j.abandoned:
			if d, ok := any(v).(Discarder); ok {
				d.Discard()
			}
		}
	}
}

// OnOwnThread runs f on an OS thread that ends with f: the goroutine never unlocks the thread, so the runtime ends it, with
// its namespaces and its Landlock domain. It does not use the process's first thread, which cannot end and which stands for
// the process in /proc.
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
