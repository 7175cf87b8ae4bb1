package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

func newConfigCommand(a *cli) *cobra.Command {
	group := newGroup("config", "Show or check the configuration",
		"The configuration starts with the defaults. The file wins over the defaults,\nand flags win over both.")
	show := &cobra.Command{
		Use:   "print",
		Short: "Show every setting, its value and where the value came from",
		Long: `Show every setting, its value and where the value came from. You can use the
output as a configuration file.`,
		Example: "  orphan-reaper config print --hold 10m\n  orphan-reaper config print -o json | jq .settings.hold.source",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.configPrint(cmd) },
	}
	pid := 0
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Check the configuration. If it is good, the exit code is 0. If it is\nnot, the exit code is 2, with a line for each error.\n\n" +
			"The exit code is 3 where a setting contradicts the kubelet that runs here, or\n" +
			"sets a root directory that is not there: a note reports it, and orphan-reaper\nremoves nothing.\n\n" +
			"With --as the command checks a daemon that runs: its file and its flags. A note\n" +
			"then changes no exit code. The service runs this check before each reload.",
		Example: "  orphan-reaper config check --config ./config.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("as") && (len(a.given) > 0 || a.configFile != "") {
				return exit.Usagef("", "--as uses the settings of the daemon: leave out the other flags")
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("as") {
				c, err := a.config(cmd.Context())
				if err != nil {
					return err
				}
				contradicts, err := a.configCheck(cmd.Context(), c)
				return cmp.Or(err, exit.Attention(contradicts))
			}
			c, err := app.ConfigOf(cmd.Context(), pid, config.DefaultFile, app.DiscoverRoot)
			if err != nil {
				return err
			}
			_, err = a.configCheck(cmd.Context(), c) // a contradiction does not stop a reload, which may correct it
			return err
		},
	}
	check.Flags().IntVar(&pid, "as", 0, "check the file and the flags of the daemon that runs as `PID`")
	group.AddCommand(show, check)
	return group
}

func (a *cli) configPrint(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	return a.write(c.JSON(), func(p *ui.Printer) {
		for _, line := range c.Lines() {
			source := ""
			if line.Source != "" {
				source = p.Paint(ui.Faint, "# "+clean.Text(line.Source))
				line.Text = human.Pad(line.Text, 44)
			}
			p.Printf("%s%s\n", line.Text, source)
		}
	})
}

// configCheck prints that the configuration is good, with notes, and reports whether it contradicts this node.
func (a *cli) configCheck(ctx context.Context, c config.Config) (contradicts bool, err error) {
	notes, contradicts, err := app.CheckConfig(ctx, c, app.Now().Wall)
	if err != nil {
		return false, err
	}
	view := map[string]any{"file": c.File, "good": true, "notes": append([]string{}, notes...)}
	return contradicts, a.write(view, func(p *ui.Printer) {
		file := clean.Text(c.File)
		if file == "" {
			file = "the defaults and the flags; there is no " + config.DefaultFile
		}
		p.Printf("good: %s\n", file)
		if !contradicts { // else the daemon would remove nothing
			p.Para("", "A daemon that starts now "+c.Begins()+".")
		}
		for _, note := range notes {
			p.Item("", "note:", 6, ui.Yellow, note)
		}
	})
}
