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
	for _, name := range retiredFlags {
		flags.Func(name, "", func(text string) error { given[name] = append(given[name], text); return nil })
		_ = flags.MarkHidden(name) // it fails only for a flag that does not exist
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

// Set checks one value and keeps it.
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

// CommandLine returns the flags with which another command of this program reads the same node, quoted for a shell:
// those of this call, except the log's and those that repeat a default or the file. Paths are absolute, so that the
// command works in another directory.
func (in Input) CommandLine() string {
	var words []string
	carry := func(flag, value string) {
		words = append(words, "--"+flag+" "+clean.Shell(clean.Text(value)))
	}
	if in.File != "" {
		carry("config", absolute(in.File))
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
		if err == nil && slices.Equal(s.Values(&c), s.Values(&without)) && (without.Named(s.Key) || !s.found()) {
			continue
		}
		for _, value := range s.Values(&c) {
			carry(s.Flag, value)
		}
	}
	return strings.Join(words, " ")
}

// found reports whether the program may use another value than the default where nothing names the setting.
func (s *Setting) found() bool { return s.isPath() || s.Key == "journal_units" }

// absolute returns a path from the root, or the path itself without a working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
