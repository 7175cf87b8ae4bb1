package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// SweepOptions are the options of one sweep.
type SweepOptions struct {
	Only   []parsers.PodUID // none for all
	NoWait bool             // leave what must wait to the next run
	// Show prints a record on a terminal. Waits prints what a pass found, before each wait. Both are nil in a pipe.
	Show  func(policy.Record) error
	Waits func(*reaper.Report) error
}

// Sweep does the daemon's work once. It writes the daemon's metrics file, because cron jobs run it in place of the daemon.
func (by Person) Sweep(ctx context.Context, cfg config.Config, version string, o SweepOptions) (rep reaper.Report, err error) {
	work := progress.From(ctx)
	defer work.End()
	if _, err := CheckCredentials(ctx, cfg, time.Now()); err != nil {
		return reaper.Report{}, err
	}
	limitHeap()
	log := newLogger(cfg, by.Stderr, logLevel(cfg))
	n, err := open(ctx, cfg, options{
		access: Runs, log: log, by: by.named(cfg), recorder: newRecorder(cfg, by.Stderr, o.Show, logLevel(cfg)),
		metrics: newMetricsFile(ctx, cfg, version, log, slog.LevelDebug),
	})
	if err != nil {
		return reaper.Report{}, err
	}
	defer n.Close()
	return n.Reaper.Sweep(ctx, reaper.SweepOptions{
		Options: reaper.Options{Only: o.Only, Claims: recentClaims(ctx, cfg, n.Reaper.Clock, log)},
		NoWait:  o.NoWait,
		Progress: func(rep reaper.Report, _ time.Duration) {
			if o.Waits != nil && logLevel(cfg) <= slog.LevelInfo {
				if err := o.Waits(&rep); err != nil {
					log.DebugContext(ctx, "cannot print which pods wait", slog.Any("error", err))
				}
			}
			work.Begin("waiting for the next step", "", 0)
		},
		Sleep: sleep,
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
