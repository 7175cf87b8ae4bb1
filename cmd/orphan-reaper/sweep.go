package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

func newSweepCommand(a *app) *cobra.Command {
	var dryRun, noWait bool
	cmd := &cobra.Command{
		Use:   "sweep [UID...]",
		Short: "Take what may go, once, then exit",
		Long: "Look, take every orphaned pod that has proved dead, wait out hold and confirm,\nand exit. For cron and jobs; the daemon does the same by itself.\n\n" +
			"With --no-wait the next run goes on where this one stopped.\n\n" + attentionHelp,
		Example:     "  orphan-reaper sweep --dry-run\n  orphan-reaper sweep --no-wait -o json",
		Annotations: marks(allSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			uids, err := podUIDs(args)
			if err != nil {
				return err
			}
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				report, err := a.deps.survey(cmd.Context(), cfg, uids)
				if err != nil {
					return err
				}
				return a.printSweep(cfg, report, true, uids...)
			}
			report, err := a.sweep(cmd.Context(), cfg, uids, noWait)
			if err != nil {
				return noNode(err)
			}
			return a.printSweep(cfg, report, false, uids...)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be taken, change nothing")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "leave what must wait to the next run")
	return cmd
}

// sweep is the daemon's work in one go. Its metrics are the daemon's file: where a cron job
// takes the daemon's place, its figures stand there.
func (a *app) sweep(ctx context.Context, cfg Config, uids []parsers.PodUID, noWait bool) (reaper.Report, error) {
	if _, err := cfg.credentials(ctx, time.Now()); err != nil {
		return reaper.Report{}, err
	}
	collectEarly()
	log := newLogger(cfg, a.stderr)
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
	metrics := newMetricsFile(ctx, cfg, log, slog.LevelDebug)
	r, err := newReaper(ctx, cfg, store, log, newTeller(cfg, a.stderr), metrics)
	if err != nil {
		return reaper.Report{}, err
	}
	countFailures(r, metrics)
	tellUnlisted(r, log)
	line := a.progress()
	defer line.Clear()
	line.Show("listening to the kubelet's log")
	return r.Sweep(ctx, reaper.SweepOptions{
		Options: reaper.Options{Only: uids, CNIFiles: cfg.cniFiles, Claims: hear(ctx, cfg, r.Clock, log)},
		NoWait:  noWait,
		Progress: func(rep reaper.Report, wait time.Duration) {
			line.Show("%s; the next step comes in %s", rep.Summary(r.Rules), age(wait))
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
