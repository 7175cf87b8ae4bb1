package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

const doctorLong = `Show on one screen why the kubelet complains about orphaned pods, as in
"orphaned pod found, but volume paths are still present on disk". The screen
shows: what the kubelet reports, since when, and how often; what lies on the
disk; what is removed automatically, and when; what you have to do, with
commands to paste; and what is missing on this node.

The command reads the journal of the last 24 hours, or the log files, and takes
one look at the pods directory. It changes nothing and needs no set-up. Without
root it shows what it can read.

Exit code 0: you have nothing to do. There are no complaints, or what they are
about is removed automatically.
Exit code 3: you have something to do. A pod stays until you act, or a conflict
lies in quarantine, or a pod can be removed and no daemon is known to run here.
Exit code 1: the pods directory could not be read.`

func newDoctorCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "doctor",
		Short:             "Show why the kubelet complains, and what to do; changes nothing",
		Long:              doctorLong,
		Example:           "  sudo orphan-reaper doctor\n  orphan-reaper doctor -o json | jq -r '.todo[].commands[]'",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			x, err := app.Examine(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			shown := ui.NewDoctor(x, a.viewContext(cfg))
			if err := a.write(shown, func(p *ui.Printer) { p.Doctor(&shown) }); err != nil {
				return err
			}
			return cmp.Or(x.Err, exit.Attention(shown.NeedsPerson))
		},
	}
}
