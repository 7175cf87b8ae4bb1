package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// width is what the demo is laid out for.
const width = 78

// teller tells the story, and shows between its words what the daemon says.
type teller struct {
	out    *bufio.Writer
	colour bool
	part   int

	mu      sync.Mutex // held while somebody else writes to the terminal
	began   time.Time
	heard   []string
	changed chan struct{} // closed and replaced with each line heard
}

func newTeller(out *os.File) *teller {
	colour := term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &teller{out: bufio.NewWriter(out), colour: colour, changed: make(chan struct{})}
}

func (t *teller) bold(s string) string {
	if !t.colour {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// heading begins a part.
func (t *teller) heading(text string) {
	t.part++
	t.write("\n" + t.bold(fmt.Sprintf("%d. %s", t.part, text)) + "\n\n")
}

// say tells a paragraph, wrapped.
func (t *teller) say(text string) { t.write(wrap("", "", text)) }

// show shows text as it is, indented.
func (t *teller) show(text string) {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		b.WriteString("    " + line)
	}
	t.write("\n" + b.String() + "\n")
}

func (t *teller) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(text)
}

// put writes at once; a terminal that is gone is no reason to stop.
func (t *teller) put(text string) {
	_, _ = t.out.WriteString(text)
	_ = t.out.Flush()
}

// alone lets f write to the terminal while the daemon's lines wait.
func (t *teller) alone(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f()
}

// logPrefix is what slog's text handler puts before the message.
var logPrefix = regexp.MustCompile(`^time=\S+ level=(\w+) msg=`)

// listen shows what the daemon says, with the seconds since it began, and remembers it.
func (t *teller) listen(stderr io.Reader) {
	t.began = time.Now()
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		shown := logPrefix.ReplaceAllString(line, "$1 ")
		at := fmt.Sprintf("%5.1fs  ", time.Since(t.began).Seconds())
		t.mu.Lock()
		t.put(wrap(at, strings.Repeat(" ", len(at)), shown))
		t.heard = append(t.heard, line)
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
	}
}

// patience is how long the demo waits for one thing to happen; most take 4 s.
const patience = 40 * time.Second

// await waits until the daemon has said a line with all the words.
func (t *teller) await(words ...string) error {
	timeout := time.After(patience)
	for {
		t.mu.Lock()
		changed := t.changed
		for _, line := range t.heard {
			if containsAll(line, words) {
				t.mu.Unlock()
				return nil
			}
		}
		t.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("the daemon did not say within %s: %s", patience, strings.Join(words, " … "))
		}
	}
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// wrap breaks text at spaces; the first line begins with first, the others with rest.
func wrap(first, rest, text string) string {
	var b strings.Builder
	line := first
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	b.WriteString(line + "\n")
	return b.String()
}
