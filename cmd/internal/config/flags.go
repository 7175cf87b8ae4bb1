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

// CommandLine returns the flags with which another command of this program means the same node and judges it alike, as a
// shell takes them: those that were given and that this command uses. Paths are absolute: the command means the same in
// another directory.
func (in Input) CommandLine(command string) string {
	var words []string
	uses := usesOf(command)
	carry := func(flag, value string) {
		words = append(words, "--"+flag+" "+human.ShellQuoted(clean.Text(value)))
	}
	if in.File != "" {
		carry("config", absolute(in.File))
	}
	for i := range Settings {
		s := &Settings[i]
		values := in.Given[s.Flag]
		if len(values) == 0 || s.use&uses != s.use {
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

// use is what a command does, and what a setting is for. A setting without one is for every command.
type use uint8

const (
	useNode  use = 1 << iota // look for signs of life of one pod
	useTimes                 // judge pods
	useLogs                  // read the logs
	useAging                 // show when ephemeral data goes
	useCNI                   // judge files of CNI
	useRun                   // do the daemon's work
	useNever                 // about one call: the records' form
)

// usesOf returns what a command does, by its beginning.
func usesOf(command string) use {
	has := func(words string) bool { return strings.Contains(command+" ", " "+words+" ") }
	switch {
	case has("quarantine list"):
		return useAging
	case has("quarantine forget"), has("quarantine resume"), has("report"):
		return 0
	case has("quarantine restore") && (has("--batch") || strings.Contains(command, " cni-")):
		return useNode | useCNI
	case has("quarantine restore"), has("quarantine purge"):
		return useNode
	case has("explain"), has("doctor"):
		return useNode | useTimes | useLogs | useAging
	case has("scan"):
		return useNode | useTimes | useLogs | useAging | useCNI
	}
	return useNever - 1
}
