package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Sweep does the daemon's work once, for the pods of only, or for all. With noWait it leaves to the next run what must wait.
// It writes the daemon's metrics file, because cron jobs run it in place of the daemon.
func (by Person) Sweep(ctx context.Context, cfg config.Config, version string, only []parsers.PodUID, noWait bool) (rep reaper.Report, err error) {
	work := progress.From(ctx)
	defer work.End()
	if _, err := CheckCredentials(ctx, cfg, time.Now()); err != nil {
		return reaper.Report{}, err
	}
	limitHeap()
	log := newLogger(cfg, by.Stderr, logLevel(cfg))
	n, err := open(ctx, cfg, options{
		access: Runs, log: log, by: by.named(cfg), recorder: newRecorder(cfg, by.Stderr, logLevel(cfg)),
		metrics: newMetricsFile(ctx, cfg, version, log, slog.LevelDebug),
	})
	if err != nil {
		return reaper.Report{}, err
	}
	defer n.Close()
	return n.Reaper.Sweep(ctx, reaper.SweepOptions{
		Options: reaper.Options{Only: only, Claims: recentClaims(ctx, cfg, n.Reaper.Clock, log)},
		NoWait:  noWait,
		Progress: func(rep reaper.Report, wait time.Duration) {
			work.Begin("waiting until "+rep.Look.At.Wall.Add(wait).UTC().Format(time.TimeOnly)+" UTC", "", 0)
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
