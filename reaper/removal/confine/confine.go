// Package confine runs what changes the disk: one batch at a time, each on a thread of its own
// that puts itself under Landlock, so that whatever the code gets wrong, the kernel refuses it
// outside of the directories that the batch has opened.
//
// It opens and changes nothing itself. A caller opens its directories in the batch, calls
// Confine with them, and begins only then. A batch may have more threads: each calls Confine before
// it begins, and the batch ends after all of them.
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
	// ErrNotBegun is of a batch that was stopped before its first step.
	ErrNotBegun = errors.New("stopped before it was begun")
	// ErrNoAnswer is of a batch that was given up and may still be under way.
	ErrNoAnswer = errors.New("the file system does not answer; what was done of the batch is not known")
)

// Runner runs batches. Safe for use by several goroutines.
type Runner struct {
	log   *slog.Logger
	grace time.Duration
	busy  chan struct{} // holds a token while a batch's thread lives
	// abi is the version of the kernel's Landlock, abiErr why there is none, and handled the
	// rights that a batch has only where it is given them; 0 confines nothing.
	abi     int
	abiErr  error
	handled uint64
}

// New asks the kernel for Landlock. grace is how long Run waits, after its context has ended,
// for the call that is under way.
func New(grace time.Duration, log *slog.Logger) *Runner {
	r := &Runner{log: log, grace: grace, busy: make(chan struct{}, 1)}
	r.abi, r.abiErr = ll.LandlockGetABIVersion()
	r.handled = handledBy(r.abi)
	return r
}

// Run runs a batch on a thread of its own and waits for it. ErrNotBegun: ctx ended while
// another batch was under way. ErrNoAnswer: it was given up, and its thread is left behind.
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
