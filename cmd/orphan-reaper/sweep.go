package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

func newSweepCommand(a *cli) *cobra.Command {
	var dryRun, noWait bool
	cmd := &cobra.Command{
		Use:   "sweep [POD...]",
		Short: "Remove what can be removed, once, then exit",
		Long: "Look, remove every orphaned pod that is proved dead, and exit. In between, the\ncommand waits for --hold and --confirm to pass. " +
			"Use it in cron and in jobs. The\ndaemon does the same by itself.\n\n" +
			"With --no-wait the command does not wait. The next run continues where this one\nstopped.\n\n" +
			sweepArgHelp + "\n\n" + attentionHelp,
		Example:     "  orphan-reaper sweep --dry-run\n  orphan-reaper sweep --no-wait -o json",
		Annotations: annotations(allSettings),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, certainName, false)
			if err != nil {
				return err
			}
			var s app.Survey
			if dryRun {
				s, err = app.Look(cmd.Context(), cfg, uids)
			} else {
				a.printPods(args, uids)
				s.Report, err = a.person.Sweep(cmd.Context(), cfg, version().Version, uids, noWait)
				s.Daemon = app.FindDaemon(cmd.Context(), cfg)
			}
			if errors.Is(err, context.Canceled) && !dryRun {
				return &exit.Error{Code: exit.FailedCode, Err: err, Hint: "what it has moved stays in quarantine, and the next sweep goes on with it: " +
					"orphan-reaper quarantine list"}
			}
			if err != nil {
				return err
			}
			return a.printSweep(cfg, &s, ui.Show{Swept: true, DryRun: dryRun, Only: uids, All: len(uids) > 0})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed, and change nothing")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait; leave what must wait to the next run")
	return cmd
}

func (a *cli) printSweep(cfg config.Config, s *app.Survey, show ui.Show) error {
	shown := ui.NewReport(s.Report, a.lookContext(cfg, s), show)
	if err := a.write(shown, func(p *ui.Printer) { p.Report(&shown) }); err != nil {
		return err
	}
	if shown.CNITotals.Failed > 0 {
		return exit.Failf("the table and the journal have the errors", "some CNI files could not be removed")
	}
	if failed := shown.Failed(); failed > 0 {
		return exit.Failf("orphan-reaper explain UID shows why", "%s failed", human.Count(failed, "pod"))
	}
	if n := s.Unfinished; n > 0 && !show.DryRun {
		err := fmt.Errorf("%s in quarantine could not be finished yet; the next run goes on with it", human.Count(n, "entry"))
		return &exit.Error{Code: exit.AttentionCode, Err: err, Hint: "orphan-reaper quarantine list shows what is there, orphan-reaper explain UID why"}
	}
	return exit.Attention(shown.NeedsPerson() || contradicted(s.Report))
}

func newRunCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: "Follow the kubelet's log, and remove what orphaned pods left once they have\n" +
			"proved dead. The daemon runs until SIGTERM. On SIGHUP it reads its\n" +
			"configuration again.\n\n" +
			"With --mode observe the daemon changes nothing. Its records show what it would\ndo.\n\n" +
			"Exit code 0: ended by a signal. 1: failed. 2: wrong usage or configuration.",
		Example:     "  orphan-reaper run --mode observe\n  systemctl start orphan-reaper",
		Annotations: annotations(allSettings, noOutput), Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			return app.RunDaemon(cmd.Context(), cfg, version().Version, a.person, a.config)
		},
	}
}
