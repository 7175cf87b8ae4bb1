package view

import (
	"io"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/term"
)

// Printer writes views as text for a person, or as JSON.
type Printer struct{ *term.Printer }

// NewPrinter writes to w; env is the environment.
func NewPrinter(w io.Writer, env func(string) string) *Printer {
	return &Printer{term.NewPrinter(w, env)}
}

// Colour is one of the terminal's.
type Colour = term.Colour

// The colours that views use.
const (
	bold   = term.Bold
	red    = term.Red
	green  = term.Green
	Yellow = term.Yellow
	Faint  = term.Faint
)
