package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// AddFlags adds a flag for each setting; given collects the values of the flags.
func AddFlags(flags *pflag.FlagSet, given map[string][]string) {
	for i := range Settings {
		s := &Settings[i]
		usage := s.usage
		if s.Key != strings.ReplaceAll(s.Flag, "-", "_") {
			usage += "; in the file " + s.Key
		}
		flags.VarP(FlagValue{s, given}, s.Flag, "", usage)
	}
}

// FlagValue is the pflag.Value of a setting.
type FlagValue struct {
	s     *Setting
	given map[string][]string
}

// String returns the default that --help shows; "" where the usage describes it.
func (v FlagValue) String() string {
	if v.s == nil || strings.Contains(v.s.usage, "(default") {
		return ""
	}
	return strings.Join(v.s.usual, ", ")
}

// Type returns the placeholder of the value in --help.
func (v FlagValue) Type() string { return v.s.Meta }

// Set checks one value and adds it to the given ones.
func (v FlagValue) Set(text string) error {
	values := []string{text}
	if v.s.List() && len(v.s.Choices) > 0 {
		values = strings.Split(text, ",") // a choice holds no comma; a path or unit may
	}
	if err := v.s.set(new(Config), values); err != nil {
		return err
	}
	v.given[v.s.Flag] = append(v.given[v.s.Flag], values...)
	return nil
}

// CommandLine returns the flags with which another command of this program acts on the same node, quoted for a shell: those of
// this call without the log's and without those that repeat a default or the file. Paths are absolute, so that the command
// works in another directory.
func (in Input) CommandLine() string {
	var words []string
	add := func(flag, value string) {
		words = append(words, "--"+flag+" "+clean.Shell(clean.Text(value)))
	}
	if in.File != "" {
		add("config", absolute(in.File))
	}
	without, err := in.withoutFlags()
	for i := range Settings {
		s := &Settings[i]
		c, values := Default(), in.Given[s.Flag]
		if len(values) == 0 || s.Flag == "log-level" || s.Flag == "log-format" || s.set(&c, values) != nil {
			continue
		}
		for _, path := range s.paths(&c) {
			if isPath(*path) {
				*path = absolute(*path)
			}
		}
		if err == nil && slices.Equal(s.Values(&c), s.Values(&without)) && (without.Named(s.Key) || !s.discovered()) {
			continue
		}
		for _, value := range s.Values(&c) {
			add(s.Flag, value)
		}
	}
	return strings.Join(words, " ")
}

// discovered reports whether the program may use another value than the default if no flag and no file has the setting.
func (s *Setting) discovered() bool { return s.isPath() || s.Key == "journal_units" }

// absolute returns the absolute path, or the path itself if there is no working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
