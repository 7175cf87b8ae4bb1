package ui

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf16"

	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// Text fits the terminal, up to a readable width, and 80 columns without a terminal. In a pipe each row of a table is one line.
// Colour is for terminals only and never the only carrier of a meaning. Text from the node is cleaned of control characters.

const (
	pipeWidth = 80
	mostWidth = 200 // of a table
	textWidth = 100 // of text
)

// Colour is an SGR parameter (ECMA-48, 8.3.117).
type Colour string

// The colours that are used.
const (
	Bold   Colour = "1"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Faint  Colour = "2"
)

// Printer writes text of one width. Flush returns the errors of the stream.
type Printer struct {
	w       *bufio.Writer
	Columns int
	// Given holds the flags that are appended to shown commands.
	Given Given
	// Piped is true if the stream is no terminal: the reader may be a program.
	Piped  bool
	colour bool
	begun  bool // something was written
	gap    bool // an empty line precedes the next text
}

// NewPrinter returns a Printer to w; env is the environment.
func NewPrinter(w io.Writer, env func(string) string) *Printer {
	p := &Printer{w: bufio.NewWriter(w), Columns: pipeWidth, Piped: true}
	f, ok := w.(interface{ Fd() uintptr }) // a file, or a substitute
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.Piped = false
	// https://no-color.org: present and not empty. TERM=dumb has no escapes.
	p.colour = env("NO_COLOR") == "" && env("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 40 {
		p.Columns = min(width, mostWidth)
	}
	return p
}

// Printf writes formatted text as fmt.Fprintf does.
func (p *Printer) Printf(format string, args ...any) {
	p.put(p.Given.In(fmt.Sprintf(format, args...)))
}

func (p *Printer) put(text string) {
	if p.gap {
		text = "\n" + text
	}
	p.gap, p.begun = false, true
	_, _ = p.w.WriteString(text) // bufio keeps the error for Flush
}

// Write writes as an io.Writer does.
func (p *Printer) Write(b []byte) (int, error) { return p.w.Write(b) }

// Paint returns s in a colour, if the terminal has colours.
func (p *Printer) Paint(c Colour, s string) string {
	if !p.colour || c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Heading starts a part of the text.
func (p *Printer) Heading(s string) {
	p.Gap()
	p.Printf("%s\n", p.Paint(Bold, s))
}

// Gap puts one empty line between the last text and the next. It writes none at the beginning or the end.
func (p *Printer) Gap() { p.gap = p.begun }

// TextColumns returns the width of text. Longer lines are hard to read.
func (p *Printer) TextColumns() int { return min(p.Columns, textWidth) }

// Wrap breaks text into lines of at most width columns. It does not break commands.
func (p *Printer) Wrap(text string, width int) []string {
	return human.Wrap(p.Given.unbroken(text), width)
}

// Para writes text wrapped, each line behind indent.
func (p *Printer) Para(indent, text string) {
	for _, line := range p.Wrap(text, p.TextColumns()-len(indent)) {
		p.put(indent + line + "\n")
	}
}

// Item writes a label of a fixed width with wrapped text beside it.
func (p *Printer) Item(indent, label string, width int, c Colour, text string) {
	first := p.Paint(c, human.Pad(label, width))
	for _, line := range p.Wrap(text, p.TextColumns()-len(indent)-width) {
		p.put(indent + first + line + "\n")
		first = strings.Repeat(" ", width)
	}
}

// Aside calls text, which writes text beside a table. In a pipe each of its lines begins with "# ", so that a program can skip
// it.
func (p *Printer) Aside(text func()) {
	if !p.Piped {
		text()
		return
	}
	var b bytes.Buffer
	to := *p
	p.w, p.Columns = bufio.NewWriter(&b), p.Columns-len("# ")
	text()
	_ = p.w.Flush() // a buffer never fails
	*p = to
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			p.put("# " + line + "\n")
		}
	}
}

// Flush writes everything to the stream. A closed pipe is no error.
func (p *Printer) Flush() error {
	return QuietPipe(p.w.Flush())
}

// JSON writes a value as indented JSON.
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

// escaper writes JSON with each unprintable rune as \uXXXX: encoding/json leaves U+007F, U+009B and U+202E unescaped, and a
// terminal obeys them. It appends the flags to commands.
type escaper struct{ *Printer }

// Write writes the JSON of a value, which an encoder passes in one piece.
func (e escaper) Write(text []byte) (int, error) {
	var err error // bufio keeps the first error, so the last result is enough
	for _, r := range e.Given.quoted().In(string(text)) {
		if r == '\n' || strconv.IsPrint(r) {
			_, err = e.w.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			_, err = fmt.Fprintf(e.w, `\u%04x`, unit)
		}
	}
	return len(text), err
}

// QuietPipe returns nil for the error of a closed pipe.
func QuietPipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// Given is the flags of this call, quoted for a shell. They are appended to each printed command of this program, so that it
// acts on the same node in the same way when it is pasted.
type Given string

// ownCommand matches a command of this program that accepts these flags, with its arguments. It may follow the end of a
// colour, whose last byte is a letter.
var ownCommand = regexp.MustCompile(`(?:\x1b\[[0-9;]*m|\b)(?:sudo )?orphan-reaper ` +
	`(?:config check|doctor|explain|quarantine (?:forget|list|purge|restore|resume)|report|run|scan|sweep|unmount)\b` +
	`(?: (?:-o [a-z]+|--?[a-z][a-z-]*(?:=[a-z]+)?|UID|POD|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|cni-[0-9-]+))*`)

// In appends the flags to each command in text. It skips commands within a shell's quotes, or after an escaped quote of JSON,
// which may be names of files.
func (g Given) In(text string) string {
	if g == "" {
		return text
	}
	var b strings.Builder
	last := 0
	for _, m := range ownCommand.FindAllStringIndex(text, -1) {
		line := text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		quote := strings.LastIndexByte(line, '\'')
		isName := strings.HasSuffix(line, "/") || strings.HasSuffix(line, `\"`) || quote == 0 || quote > 0 && line[quote-1] == ' '
		if isName || strings.HasSuffix(text[m[0]:m[1]], " --help") { // help is the same for every node
			continue
		}
		b.WriteString(text[last:m[1]] + " " + string(g))
		last = m[1]
	}
	return b.String() + text[last:]
}

// unbroken is In, with each command marked for Wrap as unbreakable.
func (g Given) unbroken(text string) string {
	return ownCommand.ReplaceAllStringFunc(Given(human.Unbroken(string(g))).In(text), human.Unbroken)
}

// quoted returns the flags escaped for a JSON string.
func (g Given) quoted() Given {
	b, _ := json.Marshal(string(g)) // it never fails for a string
	return Given(b[1 : len(b)-1])
}
