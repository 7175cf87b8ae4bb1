package config

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// AddFlags adds a flag for each setting; given collects what the flags are given.
func AddFlags(flags *pflag.FlagSet, given map[string][]string) {
	c := Default()
	for i := range Settings {
		s := &Settings[i]
		shown := ""
		if !strings.Contains(s.usage, "(default") && s.Key != "quarantine_dir" {
			shown = strings.Join(s.Values(&c), ", ")
		}
		v := FlagValue{s, given, shown}
		usage := s.usage
		if usual := strings.ReplaceAll(s.Flag, "-", "_"); s.Key != usual {
			usage += "; in the file " + s.Key
		}
		flags.VarP(v, s.Flag, "", usage)
	}
	for _, name := range retiredFlags {
		flags.Func(name, "", func(text string) error { given[name] = append(given[name], text); return nil })
		_ = flags.MarkHidden(name) // it fails only for a flag that does not exist
	}
}

// FlagValue collects what a setting's flag was given; pflag calls it.
type FlagValue struct {
	s     *Setting
	given map[string][]string
	shown string // the default as --help shows it
}

// String returns the default that --help shows.
func (v FlagValue) String() string { return v.shown }

// Type returns what stands for the value in --help.
func (v FlagValue) Type() string { return v.s.Meta }

// Set checks one value and keeps it.
func (v FlagValue) Set(text string) error {
	values := []string{text}
	if v.s.List() && len(v.s.Choices) > 0 {
		values = strings.Split(text, ",") // A choice holds no comma; a path or unit may.
	}
	if err := v.s.set(new(Config), values); err != nil {
		return err
	}
	v.given[v.s.Flag] = append(v.given[v.s.Flag], values...)
	return nil
}

// CommandLine are the flags with which another command of this program means the same node and judges it alike, as a shell
// takes them: all that were given but those of the records' form, which are about one call. Paths are absolute: the command
// means the same in another directory.
func (in Input) CommandLine() string {
	var words []string
	carry := func(flag, value string) {
		words = append(words, "--"+flag+" "+human.ShellQuoted(clean.Text(value)))
	}
	if in.File != "" {
		carry("config", absolute(in.File))
	}
	for i := range Settings {
		s := &Settings[i]
		values := in.Given[s.Flag]
		if len(values) == 0 || s.Flag == "log-level" || s.Flag == "log-format" {
			continue
		}
		c := Default()
		if err := s.set(&c, values); err != nil {
			continue // Load tells
		}
		for _, p := range c.paths() {
			if p.flag == s.Flag && isPath(*p.value) {
				*p.value = absolute(*p.value)
			}
		}
		for _, value := range s.Values(&c) {
			carry(s.Flag, value)
		}
	}
	return strings.Join(words, " ")
}

// absolute is a path from the root, or as it is where the working directory cannot be told.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
