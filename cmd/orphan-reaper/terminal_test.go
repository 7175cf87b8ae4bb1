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

// onTerminal runs the program on a terminal with that many columns, whose user has typed answer, and returns the
// screen.
func onTerminal(t *testing.T, node string, columns int, answer string, env map[string]string, args ...string) (shown string, code int) {
	t.Helper()
	master, tty := testkit.Terminal(t, columns)
	_, err := io.WriteString(master, answer)
	testkit.Must(t, err)
	read := make(chan string)
	go func() {
		b, err := io.ReadAll(master)
		if err != nil && !errors.Is(err, unix.EIO) { // the end of a terminal, pty(7)
			b = append(b, err.Error()...)
		}
		read <- string(b)
	}()
	code = runOnNode(node, args, tty, tty, tty, func(key string) string { return env[key] })
	testkit.Must(t, tty.Close())
	return strings.ReplaceAll(<-read, "\r\n", "\n"), code
}

// sgr matches a change of colour.
var sgr = regexp.MustCompile(`\x1b\[[0-9;]*[mKAJ]`)

// TestOnTerminal checks that a screen fits terminals of two widths, and that colours change no text.
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
				t.Errorf("%v: the text with colours differs:\n%s\nand\n%s", args, colours, shown)
			}
		}
	}
}

// TestQuiet checks that --quiet omits progress and notes, that --verbose adds the phases, and that the result is the
// same.
func TestQuiet(t *testing.T) {
	testkit.NeedProcesses(t)
	n := newWholeNode(t)
	n.pod(0xabcdef01, true)
	age := regexp.MustCompile(`, \S+ ago`) // grows between two calls
	answers := func(args ...string) (stdout, stderr string, code int) {
		stdout, stderr, code = outputOf(t, n.command(args...))
		return age.ReplaceAllString(stdout, ""), stderr, code
	}
	answer, errs, _ := answers("explain", wholeUID(0xabcdef01))
	if errs != "" || answer == "" {
		t.Errorf("in a pipe: %s%s", answer, errs)
	}
	if out, errs, _ := answers("explain", "-q", wholeUID(0xabcdef01)); out != answer || errs != "" {
		t.Errorf("-q: %s%s", out, errs)
	}
	if out, errs, _ := answers("explain", "--verbose", wholeUID(0xabcdef01)); out != answer || !strings.HasPrefix(errs, "orphan-reaper: ") {
		t.Errorf("-v: %s%s", out, errs)
	}
	if _, errs, code := answers("scan", "-q", "-v"); code != 2 || !strings.Contains(errs, "give either --quiet or --verbose") {
		t.Errorf("both: %d %s", code, errs)
	}
	if _, errs, code := answers("sweep", "abcdef01"); code != 0 || !strings.HasPrefix(errs, "orphan-reaper: abcdef01 is pod ") {
		t.Errorf("without -q: note: %d %s", code, errs)
	}
	if _, errs, code := answers("quarantine", "purge", "-q", "--yes", "abcdef01"); errs != "" || code != 0 {
		t.Errorf("with -q: note: %d %s", code, errs)
	}
}
