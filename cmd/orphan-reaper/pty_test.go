package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// onTerminal runs the program on a terminal of so many columns, whose user has typed answer, and returns what it showed.
func onTerminal(t *testing.T, node string, columns int, answer string, env map[string]string, args ...string) (shown string, code int) {
	t.Helper()
	master, tty := testkit.Terminal(t, columns)
	_, err := io.WriteString(master, answer)
	testkit.Must(t, err)
	read := make(chan string)
	go func() {
		b, err := io.ReadAll(master)
		if err != nil && !errors.Is(err, unix.EIO) { // how a terminal ends, pty(7)
			b = append(b, err.Error()...)
		}
		read <- string(b)
	}()
	code = runOnNode(node, args, tty, tty, tty, func(key string) string { return env[key] })
	testkit.Must(t, tty.Close())
	return strings.ReplaceAll(<-read, "\r\n", "\n"), code
}

// sgr is a change of colour.
var sgr = regexp.MustCompile(`\x1b\[[0-9;]*[mKAJ]`)

// TestOnTerminal: a screen fits terminals of two widths, and colours add nothing to the words.
func TestOnTerminal(t *testing.T) {
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	for _, name := range []string{testUID + "/volumes/kubernetes.io~nfs/share/data", "backup/x"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(node, "var/lib/kubelet/pods", name), 0o755))
	}
	for _, args := range [][]string{{"scan", "-q"}, {"scan", "-q", "--all"}, {"sweep", "-q", "--dry-run"}, {"explain", "-q", testUID}} {
		for _, columns := range []int{80, 140} {
			shown, code := onTerminal(t, node, columns, "", map[string]string{"NO_COLOR": "1", "TERM": "xterm"}, args...)
			if code == exit.FailedCode || strings.ContainsRune(shown, '\x1b') {
				t.Errorf("%v: exit code %d: %q", args, code, shown)
			}
			fits(t, strings.Join(args, " "), shown, columns)
			colours, _ := onTerminal(t, node, columns, "", map[string]string{"TERM": "xterm"}, args...)
			if !strings.Contains(colours, "\x1b[1m") || len(strings.Fields(sgr.ReplaceAllString(colours, ""))) != len(strings.Fields(shown)) {
				t.Errorf("%v: with colours other words are shown:\n%s\nand\n%s", args, colours, shown)
			}
		}
	}
}

// TestQuestionFits: the question before a purge is broken between words, and "no" removes nothing.
func TestQuestionFits(t *testing.T) {
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	share := filepath.Join(node, "var/lib/kubelet/pods", testUID, "volumes/kubernetes.io~nfs/share")
	testkit.Must(t, os.MkdirAll(share, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(share, "data"), []byte("of a user"), 0o600))
	env := map[string]string{"NO_COLOR": "1"}
	if shown, code := onTerminal(t, node, 80, "", env, "sweep", "--hold", "0s", "--confirm", "0s"); code != exit.DoneCode {
		t.Fatalf("sweep: %d: %s", code, shown)
	}
	shown, code := onTerminal(t, node, 60, "no\n", env, "quarantine", "purge", testUID)
	question, _, asked := strings.Cut(shown, "\nType yes: ")
	if code != exit.FailedCode || !asked || !strings.Contains(question, "Permanently remove 1 pod with ") || !strings.Contains(question, "\n  volumes/") {
		t.Errorf("%d: %s", code, shown)
	}
	fits(t, "question", question, 60)
}
