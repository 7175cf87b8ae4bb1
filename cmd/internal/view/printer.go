package view

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// This file is the terminal's side of printing. The rules are: text fits 80 columns, or
// the terminal where that is narrower; colour is for terminals only and never carries
// meaning alone; whatever comes from the node is cleaned of control characters.

// maxWidth is what text is laid out for.
const maxWidth = 80

// Colour is an SGR parameter (ECMA-48, 8.3.117).
type Colour string

// The colours that are used.
const (
	bold   Colour = "1"
	red    Colour = "31"
	green  Colour = "32"
	Yellow Colour = "33"
	Faint  Colour = "2"
)

// Printer writes text of one width. Errors of the stream show at flush.
type Printer struct {
	w       *bufio.Writer
	Columns int
	colour  bool
}

// NewPrinter writes to w; env is the environment.
func NewPrinter(w io.Writer, env func(string) string) *Printer {
	p := &Printer{w: bufio.NewWriter(w), Columns: maxWidth}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	// https://no-color.org: present and not empty. TERM=dumb knows no escapes.
	p.colour = env("NO_COLOR") == "" && env("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
		p.Columns = min(width, maxWidth)
	}
	return p
}

// Printf writes formatted text as fmt.Fprintf does.
func (p *Printer) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...) // bufio keeps the error for flush.
}

// Write writes as an io.Writer does.
func (p *Printer) Write(b []byte) (int, error) { return p.w.Write(b) }

// Paint returns s in a colour, where there are colours.
func (p *Printer) Paint(c Colour, s string) string {
	if !p.colour || c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Heading starts a part of the text.
func (p *Printer) Heading(s string) { p.Printf("\n%s\n", p.Paint(bold, s)) }

// Para writes text wrapped, each line behind indent.
func (p *Printer) Para(indent, text string) {
	for _, line := range human.Wrap(text, p.Columns-len(indent)) {
		p.Printf("%s%s\n", indent, line)
	}
}

// Item writes a label of a fixed width with wrapped text beside it.
func (p *Printer) Item(indent, label string, width int, c Colour, text string) {
	lines := human.Wrap(text, p.Columns-len(indent)-width)
	p.Printf("%s%s%s\n", indent, p.Paint(c, human.Pad(label, width)), lines[0])
	for _, line := range lines[1:] {
		p.Printf("%s%*s%s\n", indent, width, "", line)
	}
}

// Flush hands everything to the stream. A reader that has gone is no error.
func (p *Printer) Flush() error { return QuietPipe(p.w.Flush()) }

// JSON writes a value as JSON that a person can read, too.
func (p *Printer) JSON(v any) error {
	if err := p.encode(v, "  "); err != nil && QuietPipe(err) != nil {
		return QuietPipe(err)
	}
	return p.Flush()
}

// JSONLine writes a value as JSON in one line.
func (p *Printer) JSONLine(v any) error { return p.encode(v, "") }

func (p *Printer) encode(v any, indent string) error {
	enc := json.NewEncoder(escaper{p})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// escaper takes JSON in one piece, as an encoder writes it: of many nodes that is megabytes.
type escaper struct{ *Printer }

// Write escapes what is not printable.
func (e escaper) Write(text []byte) (int, error) { return len(text), e.escape(text) }

// escape writes JSON with each rune that is not printable as \uXXXX, which is the same value:
// encoding/json leaves U+007F, U+009B and U+202E as they are, and a terminal obeys them. Outside
// of strings JSON has none but the line's end.
func (p *Printer) escape(text []byte) error {
	for len(text) > 0 {
		plain := 0 // most of it is ASCII, which goes in one piece
		for plain < len(text) && (text[plain] == '\n' || text[plain] >= ' ' && text[plain] < 0x7f) {
			plain++
		}
		if _, err := p.w.Write(text[:plain]); err != nil || plain == len(text) {
			return err
		}
		text = text[plain:]
		r, n := utf8.DecodeRune(text)
		var err error
		switch {
		case strconv.IsPrint(r):
			_, err = p.w.Write(text[:n])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			_, err = fmt.Fprintf(p.w, `\u%04x\u%04x`, high, low)
		default:
			_, err = fmt.Fprintf(p.w, `\u%04x`, r)
		}
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// QuietPipe takes "nobody reads any more" for the end it is.
func QuietPipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}
