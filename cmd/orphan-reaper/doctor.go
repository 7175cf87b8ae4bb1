package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/doctor"
)

const doctorLong = `Say on one screen why the kubelet complains of orphaned pods ("orphaned pod
found, but volume paths are still present on disk" and the like): what it says,
since when and how often; what lies there; what goes by itself, and when; what
you have to do, as commands to paste; and what is missing here. It reads the
journal of the last 24 hours, or the log files, takes one look at the pods
directory, and changes nothing. It needs no set-up. Without root it says what it
can read.

Exit code 0 says that nobody has to do anything: there are no complaints, or
what they are about goes by itself. 3 says that you have something to do: a pod
stays until somebody acts, a conflict lies in quarantine, or a pod may go and no
daemon is known to run that takes it. 1 says that the pods directory could not
be looked at.`

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "doctor",
		Short:             "Why does my kubelet complain, and what to do; changes nothing",
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
