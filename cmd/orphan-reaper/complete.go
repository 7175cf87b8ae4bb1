package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// completeFlags lets a shell complete the settings' values: words where there are words,
// directories for directories, nothing where a file would be wrong.
func completeFlags(root *cobra.Command) {
	register := func(flag string, f cobra.CompletionFunc) {
		if err := root.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err) // The flag is not there, or twice: the first call of any command shows it.
		}
	}
	register("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	for i := range config.Settings {
		s := &config.Settings[i]
		switch {
		case len(s.Choices) > 0:
			register(s.Flag, cobra.FixedCompletions(s.Choices, cobra.ShellCompDirectiveNoFileComp))
		case s.Meta == "DIR":
			register(s.Flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
		case s.Meta != "FILE":
			register(s.Flag, cobra.NoFileCompletions)
		}
	}
}

// completeQuarantined completes the UID of a pod in quarantine.
func (a *app) completeQuarantined(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cfg, err := a.config(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	entries, err := a.inQuarantine(cmd.Context(), cfg, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var uids []cobra.Completion
	for _, e := range entries {
		uids = append(uids, cobra.CompletionWithDesc(string(e.UID), clean.Text(policy.FullName(e.Namespace, e.PodName))))
	}
	return uids, cobra.ShellCompDirectiveNoFileComp
}
