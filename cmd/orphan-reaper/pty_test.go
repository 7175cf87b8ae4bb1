package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// onTerminal runs the program with a fake node on a terminal of so many columns, and returns what it
// showed there. The terminal is a real one, so that its size and colours are found as everywhere.
func onTerminal(t *testing.T, columns int, env map[string]string, args ...string) (shown string, code int) {
	t.Helper()
	master, tty := testkit.Terminal(t, columns)
	read := make(chan string)
	go func() {
		b, err := io.ReadAll(master)
		if err != nil && !errors.Is(err, unix.EIO) { // how a terminal ends, pty(7)
			b = append(b, err.Error()...)
		}
		read <- string(b)
	}()
	get := func(key string) string { return env[key] }
	code = runWith(fakeDeps(get), args, tty, tty, tty, get)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n"), code
}

// TestOnTerminal: what is shown fits terminals of two widths, and is the same with colour. Of scan the screens are goldens.
func TestOnTerminal(t *testing.T) {
	plain := map[string]string{"FAKE": "all", "NO_COLOR": "1", "TERM": "xterm"}
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"scan", 3, []string{"scan"}},
		{"scan-all", 3, []string{"scan", "--all"}},
		{"scan-wait", 3, []string{"scan", "--verdict", "wait"}},
		{"sweep-dry-run", 3, []string{"sweep", "--dry-run"}},
		{"explain-mounted", 3, []string{"explain", string(uidMounted)}},
	} {
		for _, columns := range []int{80, 140} {
			name := fmt.Sprintf("%s-%d.txt", c.name, columns)
			t.Run(name, func(t *testing.T) {
				shown, code := onTerminal(t, columns, plain, c.args...)
				if code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				if strings.ContainsRune(shown, '\x1b') {
					t.Error("an escape in spite of NO_COLOR")
				}
				fits(t, name, shown, columns)
				if name == "scan-80.txt" {
					golden(t, name, shown)
				}
				colours, _ := onTerminal(t, columns, map[string]string{"FAKE": "all", "TERM": "xterm"}, c.args...)
				if !strings.Contains(colours, "\x1b[1m") || sgr.ReplaceAllString(colours, "") != shown {
					t.Errorf("with colours other words are shown:\n%s", colours)
				}
			})
		}
	}
}

// sgr is a change of colour.
var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// TestQuestionFits: a question before a purge is broken between words, as all that a person reads.
func TestQuestionFits(t *testing.T) {
	master, tty := testkit.Terminal(t, 60)
	if _, err := io.WriteString(master, "no\n"); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // EIO is how a terminal ends, pty(7)
		read <- string(b)
	}()
	env := func(key string) string { return map[string]string{"FAKE": "all", "NO_COLOR": "1"}[key] }
	code := runWith(fakeDeps(env), []string{"quarantine", "purge", string(uidHeld)}, tty, tty, tty, env)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	shown := strings.ReplaceAll(<-read, "\r\n", "\n")
	question, _, asked := strings.Cut(shown, "\nType yes: ")
	if code != exit.FailedCode || !asked || !strings.Contains(question, "\nPermanently remove 1 pod with ") || !strings.Contains(question, "\n  volumes/") {
		t.Errorf("%d: %s", code, shown)
	}
	fits(t, "question", question, 60)
}
