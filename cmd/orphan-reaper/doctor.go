package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/doctor"
)

const doctorLong = `Say on one screen why the kubelet complains about orphaned pods, as in "orphaned
pod found, but volume paths are still present on disk". The screen shows:
what the kubelet says, since when, and how often; what lies on the disk; what
goes by itself, and when; what you have to do, with commands to paste; and what
is missing on this node.

The command reads the journal of the last 24 hours, or the log files, and takes
one look at the pods directory. It changes nothing and needs no set-up. Without
root it shows what it can read.

Exit code 0: nobody has to do anything. There are no complaints, or what they
are about goes by itself.
Exit code 3: you have something to do. A pod stays until somebody acts, or a
conflict lies in quarantine, or a pod may go and no daemon is known to run here
that takes it.
Exit code 1: the pods directory could not be looked at.`

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "doctor",
		Short:             "Say why the kubelet complains, and what to do; changes nothing",
		Long:              doctorLong,
		Example:           "  sudo orphan-reaper doctor\n  orphan-reaper doctor -o json | jq -r '.todo[].commands[]'",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			x, err := a.deps.examine(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			shown := doctor.New(x.Case, doctor.Read{Errors: x.Report.Look.Errors, Err: x.LookErr, Root: x.Root}, a.viewContext(cfg))
			if err := a.write(shown, func(p *view.Printer) { doctor.Write(p, &shown) }); err != nil {
				return err
			}
			return cmp.Or(x.LookErr, exit.Attention(shown.NeedsPerson))
		},
	}
}
