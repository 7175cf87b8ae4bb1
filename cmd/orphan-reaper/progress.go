package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is one line on a terminal that says what goes on. Elsewhere it says nothing.
// It is used by one goroutine.
type progress struct {
	w     io.Writer // nil: no terminal
	width int
	shown string
}

// newProgress writes to w where that is a terminal; env is the environment.
func newProgress(w io.Writer, env func(string) string) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || env("TERM") == "dumb" {
		return &progress{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = maxWidth
	}
	return &progress{w: f, width: width}
}

// Show replaces the line. A text that is shown already is not written again.
func (p *progress) Show(format string, args ...any) {
	if p.w == nil {
		return
	}
	// The last column stays free: some terminals break the line when it is written.
	text := short(clean(fmt.Sprintf(format, args...)), p.width-1)
	if text == p.shown {
		return
	}
	p.shown = text
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", text) // A line that nobody can read is no failure.
}

// Clear takes the line away, before other text and at the end.
func (p *progress) Clear() {
	if p.w == nil || p.shown == "" {
		return
	}
	p.shown = ""
	_, _ = io.WriteString(p.w, "\r\x1b[K")
}
