package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// addSettings adds a flag for each setting; given collects what the flags are given.
func addSettings(flags *pflag.FlagSet, given map[string][]string) {
	c := defaultConfig()
	for i := range settings {
		s := &settings[i]
		shown := ""
		if !strings.Contains(s.usage, "(default") && s.key != "quarantine_dir" {
			shown = strings.Join(s.values(&c), ", ")
		}
		v := flagValue{s, given, shown}
		f := flags.VarPF(v, s.flag, "", s.usage)
		if v.IsBoolFlag() {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue collects what a setting's flag was given; pflag calls it.
type flagValue struct {
	s     *setting
	given map[string][]string
	shown string // the default as --help shows it
}

// String returns the default that --help shows.
func (v flagValue) String() string { return v.shown }

// Type returns what stands for the value in --help.
func (v flagValue) Type() string { return v.s.meta }

// IsBoolFlag says whether the flag may stand without a value.
func (v flagValue) IsBoolFlag() bool {
	_, ok := v.s.field(new(Config)).(*bool)
	return ok
}

// Set checks one value and keeps it.
func (v flagValue) Set(text string) error {
	values := []string{text}
	if v.s.list() && len(v.s.choices) > 0 {
		values = strings.Split(text, ",") // A choice holds no comma; a path or unit may.
	}
	if err := v.s.set(new(Config), values); err != nil {
		return err
	}
	v.given[v.s.flag] = append(v.given[v.s.flag], values...)
	return nil
}
