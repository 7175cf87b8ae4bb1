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
	"unicode/utf8"

	"golang.org/x/term"
)

// width is what the demo is laid out for: 80 columns less a margin.
const width = 78

// teller tells the story, and shows between its words what the daemon says.
type teller struct {
	out    *os.File
	colour bool
	part   int
	place  string // the directory, cut off the paths that the daemon shows

	mu      sync.Mutex
	blank   bool      // the last line written was an empty one
	busy    bool      // somebody else writes to the terminal
	held    []string  // what was to be shown meanwhile
	began   time.Time // when the daemon did
	heard   []string
	changed chan struct{} // closed and replaced with each line heard
	ended   chan struct{} // closed when the daemon has said its last
}

func newTeller(out *os.File, dir string) *teller {
	colour := term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &teller{out: out, colour: colour, place: dir, blank: true, changed: make(chan struct{})}
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
	t.gap()
	t.write(t.bold(fmt.Sprintf("%d. %s", t.part, text)) + "\n")
	t.gap()
}

// say tells a paragraph.
func (t *teller) say(text string) {
	t.gap()
	t.write(wrap("", "", text))
}

// quote shows text as it is, indented.
func (t *teller) quote(text string) {
	t.gap()
	for line := range strings.Lines(text) {
		t.write("    " + line)
	}
	t.gap()
}

// prompt shows a command as a person would type it.
func (t *teller) prompt(args ...string) {
	line := "$ orphan-reaper " + strings.Join(args, " ")
	if len(line)+len(withConfig) > width {
		line += " \\\n   "
	}
	t.gap()
	t.write(t.bold(line+withConfig) + "\n")
}

const withConfig = " --config node.yaml"

// gap makes sure that an empty line comes next.
func (t *teller) gap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.blank {
		t.put("\n")
		t.blank = true
	}
}

func (t *teller) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(text)
}

// put writes; a terminal that is gone is no reason to stop. The caller holds the lock.
func (t *teller) put(text string) {
	_, _ = t.out.WriteString(text)
	t.blank = strings.HasSuffix(text, "\n\n")
}

// alone lets f write to the terminal while the daemon's lines wait.
func (t *teller) alone(f func() error) error {
	t.mu.Lock()
	t.busy = true
	t.mu.Unlock()
	err := f()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy, t.blank = false, false
	if len(t.held) > 0 {
		t.put("\n" + strings.Join(t.held, ""))
		t.held = nil
	}
	return err
}

// listen shows what the daemon says, with the seconds since it began, and remembers it.
func (t *teller) listen(stderr io.Reader) {
	defer close(t.ended)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.hear(lines.Text())
	}
}

func (t *teller) hear(line string) {
	shown := t.short(line)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = append(t.heard, line)
	close(t.changed)
	t.changed = make(chan struct{})
	if t.busy {
		t.held = append(t.held, shown)
		return
	}
	t.put(shown)
}

// What lines of the daemon look like: a record, "UID KIND: TEXT", and a line of its log.
var (
	recordLine = regexp.MustCompile(`^\S+ ([a-z-]+): (.*)$`)
	logLine    = regexp.MustCompile(`^time=\S+ level=(\w+) msg=(.*)$`)
	anyUID     = regexp.MustCompile(`([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// short makes a line of the daemon fit for reading along: when, what kind, and the text
// with UIDs and paths cut.
func (t *teller) short(line string) string {
	kind, text := "", line
	for _, form := range []*regexp.Regexp{recordLine, logLine} {
		if m := form.FindStringSubmatch(line); m != nil {
			kind, text = m[1], m[2]
			break
		}
	}
	text = anyUID.ReplaceAllString(strings.ReplaceAll(text, t.place+"/", ""), "$1-…")
	first := fmt.Sprintf("%5.1fs  %-8s  ", time.Since(t.began).Seconds(), strings.ToLower(kind))
	return wrap(first, strings.Repeat(" ", 18), text)
}

// patience is how long the demo waits for one thing to happen; most take 4 s.
const patience = 40 * time.Second

// await waits until the daemon has said a line with all the words.
func (t *teller) await(words ...string) error {
	timeout := time.After(patience)
	for ended := false; ; {
		t.mu.Lock()
		changed := t.changed
		for _, line := range t.heard {
			if containsAll(line, words) {
				t.mu.Unlock()
				return nil
			}
		}
		t.mu.Unlock()
		if ended {
			return fmt.Errorf("the daemon ended without saying: %s", strings.Join(words, " … "))
		}
		select {
		case <-changed:
		case <-t.ended:
			ended = true // what it said last may be it
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

// wrap breaks text at spaces, and a path that is longer than a line behind a slash; the
// first line begins with first, the others with rest.
func wrap(first, rest, text string) string {
	var b strings.Builder
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && columns(line)+1+columns(word) > width {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		for columns(line)+columns(word) > width {
			cut := strings.LastIndexByte(word[:min(len(word)-1, width-columns(line))], '/') + 1
			if cut == 0 {
				break
			}
			b.WriteString(line + word[:cut] + "\n")
			line, word = rest, word[cut:]
		}
		line += word
		empty = false
	}
	return b.String() + line + "\n"
}

func columns(s string) int { return utf8.RuneCountInString(s) }

// fold breaks text at a column, behind a space or a slash where one is near, and leaves
// every byte as it is.
func fold(text string, column int) string {
	var b strings.Builder
	for len(text) > column {
		cut := strings.LastIndexAny(text[:column], " /") + 1
		if cut < column/2 {
			cut = column
		}
		b.WriteString(text[:cut] + "\n")
		text = text[cut:]
	}
	return b.String() + text + "\n"
}
