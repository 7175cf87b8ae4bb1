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
	// Leave selects the records that stderr does not get. Waits gets what a pass found, before each wait. Both may be nil.
	Leave func(policy.Record) bool
	Waits func(*reaper.Report)
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
		access: Runs, log: log, by: by.named(cfg), recorder: newRecorder(cfg, by.Stderr, o.Leave, logLevel(cfg)),
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
				o.Waits(&rep)
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
