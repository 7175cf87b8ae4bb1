package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/reaper"
)

func newDoctorCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Show what the kubelet reports, what lies there, and what to do; changes nothing",
		Long: `Show what the kubelet reports and since when, what is hidden behind it, what is
in quarantine and in CNI's directories, what goes by itself, and what an
operator does, with the commands.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.open(cmd, reads)
			if err != nil {
				return err
			}
			defer n.Close()
			s, err := a.once(cmd.Context(), n, reaper.Options{})
			if err != nil {
				return err
			}
			if err := a.print(s, func(w io.Writer) error { return show.Doctor(w, s) }); err != nil {
				return err
			}
			return needs(s.Operator)
		},
	}
	a.addOutput(cmd)
	return cmd
}
