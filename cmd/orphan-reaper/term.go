package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// This file is the terminal's side of printing. The rules are: text fits 80 columns, or
// the terminal where that is narrower; colour is for terminals only and never carries
// meaning alone; whatever comes from the node is cleaned of control characters.

// maxWidth is what text is laid out for.
const maxWidth = 80

// colour is an SGR parameter (ECMA-48, 8.3.117).
type colour string

// The colours that are used.
const (
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	faint  colour = "2"
)

// printer writes text of one width. Errors of the stream show at flush.
type printer struct {
	w      *bufio.Writer
	width  int
	colour bool
}

// newPrinter writes to w; env is the environment.
func newPrinter(w io.Writer, env func(string) string) *printer {
	p := &printer{w: bufio.NewWriter(w), width: maxWidth}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	// https://no-color.org: present and not empty. TERM=dumb knows no escapes.
	p.colour = env("NO_COLOR") == "" && env("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
		p.width = min(width, maxWidth)
	}
	return p
}

// f writes formatted text as fmt.Fprintf does.
func (p *printer) f(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...) // bufio keeps the error for flush.
}

// Write writes as an io.Writer does.
func (p *printer) Write(b []byte) (int, error) { return p.w.Write(b) }

// paint returns s in a colour, where there are colours.
func (p *printer) paint(c colour, s string) string {
	if !p.colour || c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// heading starts a part of the text.
func (p *printer) heading(s string) { p.f("\n%s\n", p.paint(bold, s)) }

// para writes text wrapped, each line behind indent.
func (p *printer) para(indent, text string) {
	for _, line := range wrap(text, p.width-len(indent)) {
		p.f("%s%s\n", indent, line)
	}
}

// item writes a label of a fixed width with wrapped text beside it.
func (p *printer) item(indent, label string, width int, c colour, text string) {
	lines := wrap(text, p.width-len(indent)-width)
	p.f("%s%s%s\n", indent, p.paint(c, pad(label, width)), lines[0])
	for _, line := range lines[1:] {
		p.f("%s%*s%s\n", indent, width, "", line)
	}
}

// flush hands everything to the stream. A reader that has gone is no error.
func (p *printer) flush() error { return quietPipe(p.w.Flush()) }

// json writes a value as JSON that a person can read, too.
func (p *printer) json(v any) error {
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil && quietPipe(err) != nil {
		return quietPipe(err)
	}
	return p.flush()
}

// quietPipe takes "nobody reads any more" for the end it is.
func quietPipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}
