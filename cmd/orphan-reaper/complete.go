package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// completeFlags has a shell complete the values of settings: words, directories, or nothing.
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

// completing limits how long a shell waits.
const completing = 3 * time.Second

// completePods completes a pod that is on disk, in the runtime or in quarantine. explain and unmount accept
// one.
func (a *cli) completePods(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if (cmd.Name() == "explain" || cmd.Name() == "unmount") && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	how := anyName
	if cmd.Name() == "sweep" || cmd.Name() == "unmount" {
		how = certainName
	}
	return a.completions(cmd.Context(), begun, args, how, func(ctx context.Context, cfg config.Config) ([]app.Pod, error) {
		return app.PodsHere(ctx, cfg, false)
	})
}

func (a *cli) completeQuarantined(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completions(cmd.Context(), begun, args, noName, func(ctx context.Context, cfg config.Config) ([]app.Pod, error) {
		entries, err := a.inQuarantine(ctx, cfg)
		return podsOf(entries), err
	})
}

// completions returns UIDs, each with the pod's name. After a slash it returns the names that the command accepts, each
// with its UID, and for a path directories.
func (a *cli) completions(
	ctx context.Context, begun string, have []string, how naming, known func(context.Context, config.Config) ([]app.Pod, error),
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasPrefix(begun, "/") || strings.HasPrefix(begun, ".") {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	ctx, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	cfg, err := a.config(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	pods, err := known(ctx, cfg)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	for _, pod := range pods {
		word, about := string(pod.UID), clean.Text(pod.Name)
		if strings.Contains(begun, "/") {
			if how == noName || how == certainName && !pod.Certain {
				continue
			}
			word, about = about, word
		}
		one := cobra.CompletionWithDesc(word, about)
		if word != "" && strings.HasPrefix(word, begun) && !slices.Contains(have, word) && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}
