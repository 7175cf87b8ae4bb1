// Package confine runs the batches that change the disk, one at a time, each on its own thread. The batch opens its
// directories and then calls Confine, which restricts the thread to them by Landlock: even if the code is wrong, the
// kernel refuses a change elsewhere. A batch may have more threads. Each calls Confine before it begins, and the
// batch ends after all of them.
//
// The package changes no file itself.
package confine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

var (
	// ErrNotBegun is the error of a batch that was stopped before its first step.
	ErrNotBegun = errors.New("stopped before it was begun")
	// ErrNoAnswer is the error of a batch that was abandoned and may still change the disk.
	ErrNoAnswer = errors.New("the file system does not answer; what was done of the batch is not known")
)

// Runner runs batches. Safe for use by several goroutines.
type Runner struct {
	log   *slog.Logger
	grace time.Duration
	busy  chan struct{} // holds a token while a batch's thread lives
	// abi is the version of the kernel's Landlock, and abiErr the reason if there is none. handled has the rights
	// that a batch has only where a Grant allows them; 0 confines nothing.
	abi     int
	abiErr  error
	handled uint64
}

// New returns a Runner, and asks the kernel for its version of Landlock. grace is how long Run waits for the batch
// after its context has ended.
func New(grace time.Duration, log *slog.Logger) *Runner {
	r := &Runner{log: log, grace: grace, busy: make(chan struct{}, 1)}
	r.abi, r.abiErr = ll.LandlockGetABIVersion()
	r.handled = handledBy(r.abi)
	return r
}

// Run runs a batch on its own thread and waits for it. It returns ErrNotBegun if ctx ended while another batch ran,
// and ErrNoAnswer if it abandoned the batch, whose thread remains.
func (r *Runner) Run(ctx context.Context, run func()) error {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return ErrNotBegun
	}
	done := make(chan struct{})
	bounded.OnOwnThread(func() {
		defer func() { <-r.busy }()
		defer close(done)
		run()
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	timer := time.NewTimer(r.grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	r.log.WarnContext(ctx, "a file system does not answer, the batch is given up")
	return ErrNoAnswer
}
