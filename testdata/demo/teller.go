package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// width is that of all that is shown: orphan-reaper writes 80 columns into a pipe.
const width = 80

// teller writes the demo as a session in a shell, with explanations as comments.
type teller struct {
	out io.Writer

	mu      sync.Mutex
	shown   bool      // something was written
	muted   bool      // the daemon's records are not shown
	began   time.Time // when the daemon did
	heard   []string
	changed chan struct{} // closed and replaced with each line
	ended   chan struct{} // closed when the daemon's output ends
}

func newTeller(out io.Writer) *teller { return &teller{out: out, changed: make(chan struct{})} }

// part begins a part with a paragraph.
func (t *teller) part(title, text string) {
	t.say(title + ". " + text)
}

// say writes a paragraph.
func (t *teller) say(text string) { t.write("\n" + wrap("# ", "# ", text)) }

// prompt shows a command as a person would type it.
func (t *teller) prompt(line string) { t.write("$ " + line + "\n") }

// write writes whole lines.
func (t *teller) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(text)
}

// put writes under the lock. A terminal that is gone is no reason to stop.
func (t *teller) put(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" && !t.shown {
			continue // nothing to set apart yet
		}
		t.shown = true
		_, _ = fmt.Fprintln(t.out, line)
	}
}

// mute stops showing the daemon's records.
func (t *teller) mute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.muted = true
}

// listen shows the daemon's records, with the seconds since it began, and keeps all of its lines.
func (t *teller) listen(stderr io.Reader) {
	defer close(t.ended)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.hear(lines.Text())
	}
}

// record is a record of what the daemon does, or of the mount that keeps a pod: "UID KIND: TEXT".
var record = regexp.MustCompile(`^\S+ (parked|stripped|removed|kept): (.*)$`)

func (t *teller) hear(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = append(t.heard, line)
	close(t.changed)
	t.changed = make(chan struct{})
	if m := record.FindStringSubmatch(line); m != nil && !t.muted && (m[1] != "kept" || strings.Contains(line, "mounted (")) {
		t.put(t.short(m[1], m[2]))
	}
}

// What short leaves out of a record: the UID beside a name, and what stands behind the first of ends.
var (
	besideName = regexp.MustCompile(` \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)`)
	ends       = []string{". Undo: ", " (mounted at ", "; it goes back by itself"}
)

// short makes a record fit for reading along: when, what kind, and the text without UID, details and commands.
func (t *teller) short(kind, text string) string {
	for _, end := range ends {
		text, _, _ = strings.Cut(text, end)
	}
	first := fmt.Sprintf("%4.1fs  %-8s  ", time.Since(t.began).Seconds(), kind)
	return wrap(first, strings.Repeat(" ", len(first)), besideName.ReplaceAllString(text, ""))
}

// patience is how long the demo waits for one thing to happen; most take 4 s.
const patience = 40 * time.Second

// await waits for a line of the daemon with all the words, and returns it.
func (t *teller) await(words ...string) (string, error) {
	timeout := time.After(patience)
	for ended := false; ; {
		t.mu.Lock()
		changed := t.changed
		for _, line := range t.heard {
			if containsAll(line, words) {
				t.mu.Unlock()
				return line, nil
			}
		}
		t.mu.Unlock()
		if ended {
			return "", fmt.Errorf("the daemon ended without the line: %s", strings.Join(words, " … "))
		}
		select {
		case <-changed:
		case <-t.ended:
			ended = true // it may be the last line
		case <-timeout:
			return "", fmt.Errorf("the daemon did not write within %s: %s", patience, strings.Join(words, " … "))
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
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && columns(line)+1+columns(word) > width {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}

func columns(s string) int { return utf8.RuneCountInString(s) }
