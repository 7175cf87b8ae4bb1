package show

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const (
	columns = 80
	// mostRows is how many rows of one list a screen shows. JSON has all.
	mostRows = 40
	// mostText bounds one text from the node, in bytes: mount options may have a page.
	mostText = 400
)

// page is the text of one screen. It is written in one piece.
type page struct {
	strings.Builder
	now time.Time
	dry bool // the status is of a command that runs once and changes nothing
}

func newPage(s *reaper.Status) *page { return &page{now: s.At.Wall, dry: s.Mode == "dry-run"} }

func (p *page) writeTo(w io.Writer) error {
	if _, err := io.WriteString(w, strings.TrimLeft(p.String(), "\n")); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// para writes a paragraph, with each line indented.
func (p *page) para(indent, format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), columns-len(indent)) {
		p.WriteString(indent + line + "\n")
	}
}

// item is para with a mark before the first line.
func (p *page) item(mark, format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), columns-utf8.RuneCountInString(mark)) {
		p.WriteString(mark + line + "\n")
		mark = strings.Repeat(" ", utf8.RuneCountInString(mark))
	}
}

func (p *page) heading(text string) { p.WriteString("\n" + text + "\n") }

// commands writes one command a line, whole: it is for pasting.
func (p *page) commands(commands ...string) {
	for _, c := range commands {
		p.WriteString("    " + bounded.Text(c) + "\n")
	}
}

// table writes rows of cells. The text of the last column is wrapped, and no line ends with spaces.
func (p *page) table(rows [][]string) {
	width := 0
	for c := range len(rows[0]) - 1 {
		most := 0
		for _, row := range rows {
			most = max(most, utf8.RuneCountInString(row[c]))
		}
		width += most + 2
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		last := len(row) - 1
		for i, line := range wrap(row[last], max(columns-2-width, 16)) {
			if i == 1 {
				row = make([]string, last+1)
			}
			_, _ = fmt.Fprintln(t, "  "+strings.Join(row[:last], "\t")+"\t"+line) // a strings.Builder never fails
		}
	}
	_ = t.Flush()
	for line := range strings.Lines(b.String()) {
		p.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// wrap breaks text at spaces into lines of at most width columns. A longer word, such as a path, has its own line, and a command
// between backticks is one word.
func wrap(text string, width int) []string {
	var lines []string
	line, whole := "", strings.Split(text, "`")
	for i := 1; i < len(whole)-1; i += 2 {
		whole[i] = strings.ReplaceAll(whole[i], " ", "\x00")
	}
	for word := range strings.FieldsSeq(strings.Join(whole, "`")) {
		word = strings.ReplaceAll(word, "\x00", " ")
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// safe returns text from the node without control characters, in bounded length.
func safe(text string) string {
	return bounded.Cut(bounded.Text(bounded.Cut(text, mostText)), mostText)
}

// size returns a number of bytes in binary units.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), -1
	for f >= 1000 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	if f < 10 {
		return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
	}
	return fmt.Sprintf("%.0f %ciB", f, "KMGTP"[unit])
}

// ago returns a past time relative to now: "3 min ago". A report may be younger than the scan whose time is now.
func (p *page) ago(t time.Time) string { return span(p.now.Sub(t)) + " ago" }

// in returns a future time relative to now: "in 40 s".
func (p *page) in(t time.Time) string { return "in " + span(t.Sub(p.now)) }

// span returns a duration in its largest unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// count returns a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// name returns NAMESPACE/NAME of a pod, as far as it is known.
func name(namespace, pod string) string {
	if pod == "" {
		return "-"
	}
	if namespace != "" {
		pod = namespace + "/" + pod
	}
	return safe(strings.Join(strings.Fields(pod), "_"))
}

// short cuts a name to some columns, and marks that.
func short(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// advice writes what to do now.
func (p *page) advice(indent string, a *judge.Advice) {
	if a == nil {
		return
	}
	p.para(indent, "%s", safe(a.Do))
	p.commands(a.Commands...)
}

// JSON writes a value as indented JSON. encoding/json leaves U+007F, U+009B and U+202E as they are, and a terminal obeys
// them: each unprintable rune is escaped.
func JSON(w io.Writer, v any) error {
	var text, b strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cannot encode the output: %w", err)
	}
	for _, r := range text.String() {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}
