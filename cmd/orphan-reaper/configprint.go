package main

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// settingView is one setting as config print -o json has it.
type settingView struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Flag   string `json:"flag"`
	Reload bool   `json:"reload"` // a reload changes it without a restart
}

// configView is the configuration as config print -o json has it.
type configView struct {
	File     string                 `json:"file"`
	Settings map[string]settingView `json:"settings"`
}

// view returns the configuration for JSON.
func (c Config) view() configView {
	v := configView{c.File, map[string]settingView{}}
	for i := range settings {
		s := &settings[i]
		v.Settings[s.key] = settingView{s.json(&c), c.Source(s.key), "--" + s.flag, s.live}
	}
	return v
}

// configLine is a line of a configuration file, and where its value came from.
type configLine struct{ text, source string }

// lines writes the configuration as a file that is read again.
func (c Config) lines() (lines []configLine) {
	for i := range settings {
		s := &settings[i]
		key := s.key
		if section, name, ok := strings.Cut(key, "."); ok { // each section has one key, or they stand together
			if i == 0 || !strings.HasPrefix(settings[i-1].key, section+".") {
				lines = append(lines, configLine{text: section + ":"})
			}
			key = "  " + name
		}
		if !s.list() {
			lines = append(lines, configLine{key + ": " + yamlWord(s.values(&c)[0]), c.Source(s.key)})
			continue
		}
		lines = append(lines, configLine{key + ":", c.Source(s.key)})
		for _, v := range s.values(&c) {
			lines = append(lines, configLine{text: "  - " + yamlWord(v)})
		}
	}
	return lines
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
		return strconv.Quote(v)
	}
	// Numbers stay numbers, and truth values truth values: no text of a setting is one.
	if _, err := parseInt(v); err == nil || v == "true" || v == "false" {
		return v
	}
	return strings.TrimSpace(string(text))
}
