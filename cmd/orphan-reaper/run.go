package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/wire"
)

func newRunCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: "Follow the kubelet's log and remove what orphaned pods left, once they have\nproved dead. Runs until SIGTERM; SIGHUP reads the " +
			"configuration again.\n\n" +
			"With --mode observe nothing is changed: the records say what would be.",
		Example:     "  orphan-reaper run --mode observe\n  systemctl start orphan-reaper",
		Annotations: marks(allSettings, noOutput), Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			return wire.RunDaemon(cmd.Context(), cfg, a.process(), a.config)
		},
	}
}
