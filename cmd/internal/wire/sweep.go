package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// SweepOptions are those of one sweep by a person's word.
type SweepOptions struct {
	Only   []parsers.PodUID // none for all
	NoWait bool             // what must wait is left to the next run
	// Show tells what goes on, in a line that takes the place of the one before.
	Show func(format string, args ...any)
}

// Sweep is the daemon's work in one go. Its metrics are the daemon's file: where a cron job
// takes the daemon's place, its figures stand there.
func Sweep(ctx context.Context, cfg config.Config, proc Process, o SweepOptions) (rep reaper.Report, err error) {
	defer func() { err = noNode(err) }()
	if _, err := CheckCredentials(ctx, cfg, time.Now()); err != nil {
		return reaper.Report{}, err
	}
	collectEarly()
	log := newLogger(cfg, proc.Stderr)
	store, err := state.Open(cfg.StateDir, state.Options{Log: log})
	if err != nil {
		return reaper.Report{}, err
	}
	defer closeQuietly(store)
	release, err := lockQuarantine(cfg, store)
	if err != nil {
		return reaper.Report{}, err
	}
	defer release()
	metrics := newMetricsFile(ctx, cfg, proc.Version, log, slog.LevelDebug)
	r, err := newReaper(ctx, cfg, store, log, newTeller(cfg, proc.Stderr), metrics)
	if err != nil {
		return reaper.Report{}, err
	}
	countFailures(r, metrics)
	tellUnlisted(r, log)
	o.Show("listening to the kubelet's log")
	return r.Sweep(ctx, reaper.SweepOptions{
		Options: reaper.Options{Only: o.Only, CNIFiles: mostShown, Claims: hear(ctx, cfg, r.Clock, log)},
		NoWait:  o.NoWait,
		Progress: func(rep reaper.Report, wait time.Duration) {
			o.Show("%s; the next step comes in %s", rep.Summary(r.Rules), human.Age(wait))
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
