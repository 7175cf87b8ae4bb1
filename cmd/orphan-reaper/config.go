package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
)

//go:generate go run -tags=generate .

// newConfigCommand makes config check. load returns the settings of a call.
func newConfigCommand(load func(*cobra.Command) (*config.Config, error)) *cobra.Command {
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the settings, and print each with its origin",
		Long: `Check the settings, and print each with its value and its origin: a flag, a
line of the file, or the default. If a flag or the file is wrong, print each
error with its line, and exit with 2. Nothing on the node is read or changed.`,
		Example: "  orphan-reaper config check --config ./config.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return c.Print(cmd.OutOrStdout())
		},
	}
	return newGroup("config", "Check the settings", check)
}
