package main

import (
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

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

// settingView is one setting as config print -o json has it.
type settingView struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Flag   string `json:"flag"`
	Reload bool   `json:"reload"` // a reload changes it without a restart
}

func (a *app) configPrint(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	if a.json() {
		view := struct {
			File     string                 `json:"file"`
			Settings map[string]settingView `json:"settings"`
		}{c.File, map[string]settingView{}}
		for i := range settings {
			s := &settings[i]
			view.Settings[s.key] = settingView{s.json(&c), c.Source(s.key), "--" + s.flag, s.live}
		}
		return a.writeJSON(view)
	}
	p := a.printer(a.stdout)
	for i := range settings {
		s := &settings[i]
		source := p.paint(faint, "# "+clean(c.Source(s.key)))
		key := s.key
		if section, name, ok := strings.Cut(key, "."); ok { // each section has one key, or they stand together
			if i == 0 || !strings.HasPrefix(settings[i-1].key, section+".") {
				p.f("%s:\n", section)
			}
			key = "  " + name
		}
		if !s.list() {
			p.f("%s%s\n", pad(key+": "+yamlWord(s.values(&c)[0]), 44), source)
			continue
		}
		p.f("%s%s\n", pad(key+":", 44), source)
		for _, v := range s.values(&c) {
			p.f("  - %s\n", yamlWord(v))
		}
	}
	return p.flush()
}

// json returns a setting's value for JSON: a number or truth value as such, a list for a list, text
// for the rest.
func (s *setting) json(c *Config) any {
	switch p := s.field(c).(type) {
	case *int:
		return *p
	case *bool:
		return *p
	case *[]string:
		return *p
	}
	return s.values(c)[0]
}

// yamlWord writes a value so that the file's reader reads it again.
func yamlWord(v string) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		return quote(v)
	}
	// Numbers stay numbers, and truth values truth values: no text of a setting is one.
	if _, err := parseInt(v); err == nil || v == "true" || v == "false" {
		return v
	}
	return strings.TrimSpace(string(text))
}

func (a *app) configCheck(cmd *cobra.Command) error {
	c, err := a.config(cmd.Context())
	if err != nil {
		return err
	}
	notes, err := c.credentials(cmd.Context(), a.deps.now().Wall)
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
		}{c.File, true, list(notes)})
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
