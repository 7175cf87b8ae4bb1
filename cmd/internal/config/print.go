package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SettingView is one setting as config print -o json has it.
type SettingView struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Flag   string `json:"flag"`
	Reload bool   `json:"reload"` // a reload changes it without a restart
}

// View is the configuration as config print -o json has it.
type View struct {
	File     string                 `json:"file"`
	Settings map[string]SettingView `json:"settings"`
}

// JSON returns the configuration for JSON.
func (c Config) JSON() View {
	v := View{c.File, map[string]SettingView{}}
	for i := range Settings {
		s := &Settings[i]
		v.Settings[s.Key] = SettingView{s.json(&c), c.Source(s.Key), "--" + s.Flag, s.Live}
	}
	return v
}

// Line is a line of a configuration file, and where its value came from.
type Line struct{ Text, Source string }

// Lines writes the configuration as a file that is read again.
func (c Config) Lines() (lines []Line) {
	for i := range Settings {
		s := &Settings[i]
		key := s.Key
		if section, name, ok := strings.Cut(key, "."); ok { // each section has one key, or they stand together
			if i == 0 || !strings.HasPrefix(Settings[i-1].Key, section+".") {
				lines = append(lines, Line{Text: section + ":"})
			}
			key = "  " + name
		}
		if !s.List() {
			lines = append(lines, Line{key + ": " + yamlWord(s.Values(&c)[0]), c.Source(s.Key)})
			continue
		}
		if len(s.Values(&c)) == 0 {
			lines = append(lines, Line{key + ": []", c.Source(s.Key)})
			continue
		}
		lines = append(lines, Line{key + ":", c.Source(s.Key)})
		for _, v := range s.Values(&c) {
			lines = append(lines, Line{Text: "  - " + yamlWord(v)})
		}
	}
	return lines
}

// json returns a setting's value for JSON: a number as such, a list for a list, text
// for the rest.
func (s *Setting) json(c *Config) any {
	switch p := s.field(c).(type) {
	case *int:
		return *p
	case *[]string:
		return append([]string{}, *p...) // a list is never null
	}
	return s.Values(c)[0]
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
