package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
)

// allSettings marks a command whose help describes every setting. The help of other commands refers to it.
const allSettings = "all-settings"

func (a *cli) help(cmd *cobra.Command) {
	p := a.printer(a.stdout)
	p.Given = "" // a page is about every node
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	p.Printf("%s\n", text)
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND [flags]"
	}
	p.Heading("Usage:")
	p.Printf("  %s\n", usage)
	if cmd.HasAvailableSubCommands() {
		p.Heading("Commands:")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				p.Item("  ", c.Name(), 13, "", c.Short)
			}
		}
	}
	if cmd.Example != "" {
		p.Heading("Examples:")
		p.Printf("%s\n", cmd.Example)
	}
	own, shared := helpFlags(cmd)
	if own.HasAvailableFlags() {
		p.Heading("Flags:")
		p.Printf("%s", own.FlagUsagesWrapped(p.TextColumns()))
	}
	switch {
	case cmd.Annotations[allSettings] != "":
		p.Heading("Settings, as flags here, or with underscores in the file of --config:")
		p.Printf("%s", shared.FlagUsagesWrapped(p.TextColumns()))
	case cmd.Annotations[noSettings] == "":
		p.Gap()
		p.Printf("This command also accepts every setting of \"orphan-reaper run --help\".\n")
	}
	if !cmd.HasParent() {
		p.Gap()
		p.Printf("%s\n", exitCodes)
	}
	a.helpErr = p.Flush()
}

// helpFlags divides a command's flags into the settings and its own, which include --output and --config.
func helpFlags(cmd *cobra.Command) (own, shared *pflag.FlagSet) {
	own, shared = pflag.NewFlagSet("own", pflag.ContinueOnError), pflag.NewFlagSet("settings", pflag.ContinueOnError)
	own.SortFlags, shared.SortFlags = false, false
	cmd.InitDefaultHelpFlag()
	add := func(f *pflag.Flag) {
		_, setting := f.Value.(config.FlagValue)
		switch {
		case setting && f.Name != cmd.Annotations[usesFlag]:
			if shared.Lookup(f.Name) == nil {
				shared.AddFlag(f)
			}
		case f.Name == "config" && cmd.Annotations[noSettings] != "":
		case f.Name == "output" && cmd.Annotations[noOutput] != "":
		case f.Name == "output" && cmd.Name() == "parse":
			json := *f
			json.DefValue = "json"
			own.AddFlag(&json)
		case own.Lookup(f.Name) == nil:
			own.AddFlag(f)
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			add(f)
		}
	})
	cmd.Root().PersistentFlags().VisitAll(add)
	own.AddFlag(cmd.Flags().Lookup("help"))
	return own, shared
}

// noOutput marks a command that has one form of output.
const noOutput = "no-output"

func annotations(words ...string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		m[w] = "yes"
	}
	return m
}
