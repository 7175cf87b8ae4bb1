package main

import (
	"github.com/spf13/cobra"

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
	for i := range settings {
		s := &settings[i]
		switch {
		case len(s.choices) > 0:
			register(s.flag, cobra.FixedCompletions(s.choices, cobra.ShellCompDirectiveNoFileComp))
		case s.meta == "DIR":
			register(s.flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
		case s.meta != "FILE":
			register(s.flag, cobra.NoFileCompletions)
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
		uids = append(uids, cobra.CompletionWithDesc(string(e.UID), clean(policy.FullName(e.Namespace, e.PodName))))
	}
	return uids, cobra.ShellCompDirectiveNoFileComp
}
