package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// noSettings marks a command that reads no configuration. A flag of a setting is an error there.
const noSettings = "no-settings"

// usesFlag names the one setting that such a command uses.
const usesFlag = "uses-flag"

const rootLong = `orphan-reaper removes the directories that dead pods left on a Kubernetes node.
It acts only on pods that it has proved dead, and moves their directories to
quarantine first. It records what it removed, what it kept, and why.`

const rootExample = `  orphan-reaper doctor            why the kubelet complains, and what to do
  orphan-reaper scan              what is on this node; changes nothing
  orphan-reaper explain POD       why one pod is kept, and what to do
  orphan-reaper run --mode observe`

const exitCodes = `Exit codes:
  0  done, and nothing needs you
  1  failed
  2  wrong usage or configuration
  3  done, and something needs you`

func newRootCommand(a *cli) *cobra.Command {
	root := &cobra.Command{
		Use: "orphan-reaper", Short: "Remove the directories of orphaned pods, safely",
		Long: rootLong, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		Args: noCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, Version: version().Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.preRun(cmd) },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.help(cmd) })
	root.SetFlagErrorFunc(flagError)
	a.addFlags(root.PersistentFlags())
	completeFlags(root)
	root.InitDefaultVersionFlag() // users try the flag first; the command prints more
	root.SetVersionTemplate("orphan-reaper {{.Version}}\n")
	root.AddCommand(
		a.withProgress(newDoctorCommand(a)), newRunCommand(a), a.withProgress(newScanCommand(a)), a.withProgress(newExplainCommand(a)),
		a.withProgress(newSweepCommand(a)), a.withProgress(newUnmountCommand(a)), a.withProgress(newParseCommand(a)),
		newQuarantineCommand(a), newFleetCommand(a), newConfigCommand(a), newVersionCommand(a), newCompletionCommand(a),
	)
	completeChoices(root)
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND]", Short: "Show a command's help", Args: cobra.ArbitraryArgs, RunE: helpCommand})
	return root
}

func helpCommand(cmd *cobra.Command, args []string) error {
	target, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return unknownCommand(cmd.Root(), strings.Join(args, " "))
	}
	return target.Help()
}

func (a *cli) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.VarP(&choiceValue{&a.output, []string{"text", "json"}, "FORMAT"}, "output", "o", "text or json")
	flags.Lookup("output").DefValue = "text"
	flags.StringVar(&a.configFile, "config", "", "YAML `FILE`; unknown keys are errors; flags win over it (default: "+config.DefaultFile+", if there)")
	config.AddFlags(flags, a.given)
	a.output = "text"
}

// completeChoices has a shell offer the values of each flag that has a list of them.
func completeChoices(cmd *cobra.Command) {
	register := func(f *pflag.Flag) {
		if v, ok := f.Value.(*choiceValue); ok {
			words := cobra.FixedCompletions(v.choices, cobra.ShellCompDirectiveNoFileComp)
			if err := cmd.RegisterFlagCompletionFunc(f.Name, words); err != nil {
				panic(err) // it is registered twice: every command fails at once
			}
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(register)
	cmd.PersistentFlags().VisitAll(register)
	for _, c := range cmd.Commands() {
		completeChoices(c)
	}
}

// completeFlags sets what a shell offers as values of flags: words, directories, files or nothing.
func completeFlags(root *cobra.Command) {
	register := func(flag string, f cobra.CompletionFunc) {
		if err := root.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err) // the flag does not exist, or is registered twice: every command fails at once
		}
	}
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

type choiceValue struct {
	value   *string
	choices []string
	meta    string
}

// String returns the value.
func (v *choiceValue) String() string { return *v.value }

// Type returns the placeholder of the value in --help.
func (v *choiceValue) Type() string { return v.meta }

// Set accepts one of the words.
func (v *choiceValue) Set(s string) error {
	if slices.Contains(v.choices, s) {
		*v.value = s
		return nil
	}
	return fmt.Errorf("%s is not one of %s", strconv.Quote(s), strings.Join(v.choices, ", "))
}

func (a *cli) preRun(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed && a.configFile == "" {
		return exit.Usagef("", "--config is empty") // an empty variable of a shell does not mean the usual file
	}
	if cmd.Annotations[noSettings] == "" {
		cmd.SetContext(a.catchSignals(cmd.Context()))
		return nil
	}
	// Such a command changes nothing, so a signal may kill it.
	for flag := range a.given {
		if flag == cmd.Annotations[usesFlag] {
			continue
		}
		return exit.Usagef(cmd.CommandPath()+" --help", "--%s has no effect here", flag)
	}
	if a.configFile != "" {
		return exit.Usagef(cmd.CommandPath()+" --help", "--config has no effect here")
	}
	return nil
}

// flagError names the page that lists the flags.
func flagError(cmd *cobra.Command, err error) error {
	return exit.Usagef(cmd.CommandPath()+" --help", "%w", err)
}

func newGroup(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, SuggestionsMinimumDistance: 2,
		Args: noCommand, RunE: func(*cobra.Command, []string) error { return nil },
	}
}

func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return exit.Usagef(cmd.CommandPath()+" --help", "no command given")
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	return exit.Usagef(hint, "unknown command %s", strconv.Quote(name))
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef(cmd.CommandPath()+" --help", "unexpected argument %s", strconv.Quote(args[0]))
	}
	return nil
}
