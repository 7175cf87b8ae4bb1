package config

import (
	"strings"

	"github.com/spf13/pflag"
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
		f := flags.VarPF(v, s.Flag, "", usage)
		if v.IsBoolFlag() {
			f.NoOptDefVal = "true"
		}
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

// IsBoolFlag reports whether the flag may stand without a value.
func (v FlagValue) IsBoolFlag() bool {
	_, ok := v.s.field(new(Config)).(*bool)
	return ok
}

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
