package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SettingView is one setting in the JSON of config print.
type SettingView struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Flag   string `json:"flag"`
	Reload bool   `json:"reload"` // a reload changes it without a restart
}

// View is the JSON of config print.
type View struct {
	File     string                 `json:"file"`
	Settings map[string]SettingView `json:"settings"`
}

// JSON returns the configuration for JSON.
func (c Config) JSON() View {
	v := View{c.File, map[string]SettingView{}}
	for i := range Settings {
		s := &Settings[i]
		var value any
		switch p := s.field(&c).(type) {
		case *int:
			value = *p
		case *[]string:
			value = append([]string{}, *p...) // a list is never null
		default:
			value = s.Values(&c)[0]
		}
		v.Settings[s.Key] = SettingView{value, c.Source(s.Key), "--" + s.Flag, s.Live}
	}
	return v
}

// Line is a line of a configuration file, and the origin of its value.
type Line struct{ Text, Source string }

// Lines returns the configuration as a file that can be read again.
func (c Config) Lines() (lines []Line) {
	before := ""
	for i := range Settings {
		s := &Settings[i]
		key, indent := s.Key, ""
		if section, name, ok := strings.Cut(s.Key, "."); ok {
			if key, indent = name, "  "; section != before {
				lines = append(lines, Line{Text: section + ":"})
			}
			before = section
		}
		source, values := c.Source(s.Key), s.Values(&c)
		switch {
		case !s.List():
			lines = append(lines, Line{indent + key + ": " + yamlWord(values[0]), source})
		case len(values) == 0:
			lines = append(lines, Line{indent + key + ": []", source})
		default:
			lines = append(lines, Line{indent + key + ":", source})
			for _, v := range values {
				lines = append(lines, Line{Text: indent + "  - " + yamlWord(v)})
			}
		}
	}
	return lines
}

// yamlWord writes a value as YAML. A number keeps its form.
func yamlWord(v string) string {
	if _, err := strconv.Atoi(v); err == nil {
		return v
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return strconv.Quote(v)
	}
	return strings.TrimSpace(string(text))
}
