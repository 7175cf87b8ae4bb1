package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
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
			line := newProgress(a.stderr, a.env)
			report, err := sweep(cmd.Context(), cfg, a.process(), sweepOptions{Only: uids, NoWait: noWait, Show: line.Show})
			line.Clear()
			if err != nil {
				return err
			}
			return a.printSweep(cfg, report, false, uids...)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be taken, change nothing")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "leave what must wait to the next run")
	return cmd
}

// printSweep writes what a sweep did, or with dryRun would do, and returns the error that
// carries its exit code. only are the pods that were asked for, none for all.
func (a *app) printSweep(cfg Config, report reaper.Report, dryRun bool, only ...parsers.PodUID) error {
	shown := viewReport(report, a.viewContext(cfg))
	shown.addOutcomes(report, dryRun)
	shown.missing(only)
	if err := a.write(shown, func(p *printer) { p.sweep(&shown) }); err != nil {
		return err
	}
	if shown.CNITotals.Failed > 0 {
		return failf("the table and the journal have the errors", "some CNI files could not be removed")
	}
	if failed := shown.failed(); failed > 0 {
		return failf("orphan-reaper explain UID says more", "%s failed", count(failed, "pod"))
	}
	return attention(shown.needsPerson())
}
