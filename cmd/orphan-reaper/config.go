package main

import (
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/wire"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func newConfigCommand(a *app) *cobra.Command {
	group := newGroup("config", "Show or check the configuration",
		"The configuration is the defaults, the file over them, the flags over both.")
	show := &cobra.Command{
		Use:   "print",
		Short: "Show every setting, its value and where the value came from",
		Long: `Show every setting, its value and where the value came from. What it prints is
itself a configuration file.`,
		Example: "  orphan-reaper config print --hold 10m\n  orphan-reaper config print -o json | jq .settings.hold.source",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.configPrint(cmd) },
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say whether the configuration is good",
		Long: "Say whether the configuration is good: exit code 0, or 2 with a line for each\nerror. " +
			"A note tells where it contradicts the kubelet that runs here: then\nnothing is taken.",
		Example: "  orphan-reaper config check --config ./config.yaml",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.configCheck(cmd) },
	}
	group.AddCommand(show, check)
	return group
}

func (a *app) configPrint(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	if a.json() {
		return a.writeJSON(c.JSON())
	}
	p := a.printer(a.stdout)
	for _, line := range c.Lines() {
		source := ""
		if line.Source != "" {
			source = p.Paint(view.Faint, "# "+clean.Text(line.Source))
			line.Text = human.Pad(line.Text, 44)
		}
		p.Printf("%s%s\n", line.Text, source)
	}
	return p.Flush()
}

func (a *app) configCheck(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	notes, err := wire.CheckCredentials(cmd.Context(), c, a.deps.now().Wall)
	if err != nil {
		return err
	}
	notes = append(c.Notes(), notes...)
	note, err := wire.CheckWeb(cmd.Context(), c)
	if err != nil {
		return err
	}
	if note != "" {
		notes = append(notes, note)
	}
	if a.deps.agrees != nil {
		if f := a.deps.agrees(cmd.Context(), c); f.Truth != policy.Yes {
			notes = append(notes, "nothing will be taken: "+f.Detail)
		}
	}
	if a.json() {
		return a.writeJSON(struct {
			File  string   `json:"file"`
			Good  bool     `json:"good"`
			Notes []string `json:"notes"`
		}{c.File, true, append([]string{}, notes...)})
	}
	p := a.printer(a.stdout)
	if c.File == "" {
		p.Printf("good: the defaults and the flags; there is no %s\n", config.DefaultFile)
	} else {
		p.Printf("good: %s\n", clean.Text(c.File))
	}
	for _, note := range notes {
		p.Item("", "note:", 6, view.Yellow, note)
	}
	return p.Flush()
}
