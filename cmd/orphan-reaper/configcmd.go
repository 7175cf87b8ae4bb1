package main

import (
	"github.com/spf13/cobra"

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
		return a.writeJSON(c.view())
	}
	p := a.printer(a.stdout)
	for _, line := range c.lines() {
		source := ""
		if line.source != "" {
			source = p.paint(faint, "# "+clean(line.source))
			line.text = pad(line.text, 44)
		}
		p.f("%s%s\n", line.text, source)
	}
	return p.flush()
}

func (a *app) configCheck(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	notes, err := checkCredentials(cmd.Context(), c, a.deps.now().Wall)
	if err != nil {
		return err
	}
	notes = append(c.Notes(), notes...)
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
		p.f("good: the defaults and the flags; there is no %s\n", defaultConfigFile)
	} else {
		p.f("good: %s\n", clean(c.File))
	}
	for _, note := range notes {
		p.item("", "note:", 6, yellow, note)
	}
	return p.flush()
}
