package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

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

func (a *app) printer(w io.Writer) *printer {
	p := &printer{w: bufio.NewWriter(w), width: maxWidth}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	// https://no-color.org: present and not empty. TERM=dumb knows no escapes.
	p.colour = a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
		p.width = min(width, maxWidth)
	}
	return p
}

// f writes formatted text as fmt.Fprintf does.
func (p *printer) f(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...) // bufio keeps the error for flush.
}

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

// pad fills s with spaces up to width columns, and leaves one space at least.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s)))
}

// wrap breaks text into lines of at most width columns, at spaces, and at slashes or
// anywhere in words that are longer than a line. It returns one line at least.
func wrap(text string, width int) []string {
	width = max(width, 10)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && runes(line)+1+runes(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; runes(line) > width; {
			cut := cutAt(line, width)
			lines, line = append(lines, line[:cut]), line[cut:]
		}
	}
	return append(lines, line)
}

// cutAt returns where to cut a word: after the last slash that fits, so that names stay
// whole, else at the width.
func cutAt(word string, width int) int {
	end := 0
	for range width {
		_, n := utf8.DecodeRuneInString(word[end:])
		end += n
	}
	if i := strings.LastIndexByte(word[:end], '/'); i > 0 {
		return i + 1
	}
	return end
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// clean makes text from the node safe to show: what is not printable, which takes in
// escapes and marks that turn the writing direction, is shown as Go would quote it.
func clean(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
		}
		if unsafeRune(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unsafeRune(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// short cuts s to width columns and marks the cut.
func short(s string, width int) string {
	if runes(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}
