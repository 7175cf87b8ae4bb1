package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Sighting is one line of parse's output. Users rely on the order of the keys.
type Sighting struct {
	Line      int            `json:"line"`
	UID       parsers.PodUID `json:"uid"`
	Kind      parsers.Kind   `json:"kind,omitempty"`
	Reason    parsers.Report `json:"reason"`
	Count     *int           `json:"count"`
	Transport string         `json:"transport"`
	Program   string         `json:"program"`
	Time      *string        `json:"time"`
	// Leaf is the directory that is not empty, in a tear-down error (--hints).
	Leaf string `json:"leaf,omitempty"`
	// File is the input, left out if there is only one.
	File string `json:"file,omitempty"`
}

// NewSighting converts a sighting for display. file is empty if there is only one.
func NewSighting(s parsers.Sighting, line int, file string) Sighting {
	v := Sighting{Line: line, UID: s.UID, Kind: s.Kind, Reason: s.Report, Transport: s.Transport, Program: s.Program, Leaf: s.Leaf, File: file}
	if s.Count != parsers.NoCount {
		v.Count = &s.Count
	}
	if !s.Time.IsZero() {
		v.Time = new(s.Time.Format(time.RFC3339Nano))
	}
	return v
}

// Text returns the sighting as one line for people.
func (v Sighting) Text() string {
	number, at := "-", "-"
	if v.Count != nil {
		number = fmt.Sprint(*v.Count)
	}
	if v.Time != nil {
		at = *v.Time
	}
	place := fmt.Sprint(v.Line)
	if v.File != "" {
		place = clean.Text(v.File) + ":" + place
	}
	text := fmt.Sprintf("%s: %s %s count=%s %s %s %s", place, v.UID, v.Reason, number, at, v.Transport, clean.Text(v.Program))
	return strings.TrimSuffix(text, " ") + "\n" // without a program
}
