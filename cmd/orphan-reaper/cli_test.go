package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestComplain checks that each error has a line, without the node's control characters, and then the hint.
func TestComplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{exit.Attention(true), ""},
		{errTest, "orphan-reaper: error: the node is away\n"},
		{exit.Usagef("do this", "bad %q", "x"), "orphan-reaper: error: bad \"x\"\norphan-reaper: hint: do this\n"},
		{fmt.Errorf("cannot look: %w", exit.Failf("do this", "x")), "orphan-reaper: error: cannot look: x\norphan-reaper: hint: do this\n"},
		{errors.Join(errors.New("a"), errors.New("b\x1b[2J")), "orphan-reaper: error: a\norphan-reaper: error: b\\x1b[2J\n"},
	} {
		var out bytes.Buffer
		(&cli{stderr: &out}).printError(c.err)
		if out.String() != c.want {
			t.Errorf("%v: %q, want %q", c.err, out.String(), c.want)
		}
	}
}

// TestHintFor checks that a user without a right gets the hint to use root, and that root does not.
func TestHintFor(t *testing.T) {
	denied := fmt.Errorf("cannot open the state directory: %w", fs.ErrPermission)
	for _, c := range []struct {
		name string
		err  error
		root bool
		want string
	}{
		{"denied to a user", denied, false, "run it as root"},
		{"denied to root", denied, true, ""},
		{"its own hint", exit.Failf("look there", "%w", denied), false, "look there"},
		{"another failure", fs.ErrNotExist, false, ""},
		{"a full disk", fmt.Errorf("cannot write x: %w", syscall.ENOSPC), true, "free some MiB on that disk, and run the command again: it then removes dead pods"},
		{"a full output", &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, true, ""},
		{"a full quota", fmt.Errorf("cannot write x: %w", syscall.EDQUOT), true, "free some MiB on that disk, and run the command again: it then removes dead pods"},
	} {
		s, _ := errors.AsType[*exit.Error](c.err)
		if got := hintFor(c.err, s, c.root); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// arguments are the arguments that a command requires, by its path; other commands require none.
var arguments = map[string][]string{
	"explain": {testUID}, "parse": {"-"}, "completion": {"bash"}, "help": {"scan"}, "fleet sweep": {"--yes"},
	"quarantine restore": {testUID}, "quarantine purge": {testUID, "--yes"}, "quarantine forget": {testUID},
}

// runnable returns the paths of all commands that can be run.
func runnable(cmd *cobra.Command, path ...string) (all [][]string) {
	for _, c := range cmd.Commands() {
		own := append(append([]string{}, path...), c.Name())
		if c.HasSubCommands() {
			all = append(all, runnable(c, own...)...)
		} else if c.Runnable() {
			all = append(all, own)
		}
	}
	return all
}

// TestNothingIsThere checks that a missing root directory or contradictory settings never end with success: the node
// would look clean.
func TestNothingIsThere(t *testing.T) {
	all := runnable(newRootCommand(&cli{given: map[string][]string{}, env: noEnv}))
	if len(all) < 15 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, path := range all {
		name := strings.Join(path, " ")
		try := func(more ...string) (code int, printed string) {
			code, out, printed := call(t, append(append(append([]string{}, path...), arguments[name]...), more...)...)
			return code, out + printed
		}
		// The daemon waits for a late kubelet or disk, and print shows the settings.
		if name != "run" && name != "config print" {
			if code, printed := try("--root-dir", "/nope"); code == exit.DoneCode || printed == "" {
				t.Errorf("%s --root-dir /nope: exit code %d: %s", name, code, printed)
			}
		}
		if code, printed := try("--confirm", "0s"); code != exit.UsageCode || printed == "" {
			t.Errorf("%s --confirm 0s: exit code %d: %s", name, code, printed)
		}
	}
	// Batches and archives have other names.
	for _, args := range [][]string{
		{"restore", "cni-20261120-001415-000"}, {"restore", "--batch", "cni-20261120-001415-000"}, {"purge", "--yes", "cni-20261120-001415-000"}, {"purge", "--yes", "--all"},
	} {
		if code, out, printed := call(t, append(append([]string{"quarantine"}, args...), "--root-dir", "/nope")...); code != exit.FailedCode {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, printed)
		}
	}
	if code, out, _ := call(t, "config", "check", "--root-dir", "/nope"); code != exit.AttentionCode ||
		!strings.Contains(out, "note: cannot find the kubelet's root directory /nope") || strings.Contains(out, "starts now") {
		t.Errorf("config check: exit code %d: %s", code, out)
	}
}

// TestHelp checks that every command's help fits 80 columns and has an example and a description.
func TestHelp(t *testing.T) {
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		name := strings.Join(append(path, "--help"), " ")
		code, out, errs := call(t, append(path, "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s", name, code, errs)
		}
		fits(t, name, out)
		if _, given, _ := call(t, append(path, "--help", "--root-dir", "/x")...); given != out {
			t.Errorf("%s: --root-dir changes the page:\n%s", name, given)
		}
		if c.Name() != "help" && !c.HasSubCommands() && !strings.Contains(out, "\nExamples:\n  ") {
			t.Errorf("%s: no example", name)
		}
		if strings.HasSuffix(c.Short, ".") || c.Short == "" || len(c.Short) > 65 {
			t.Errorf("%s: short text %q", name, c.Short)
		}
		for _, sub := range c.Commands() {
			walk(append(slices.Clone(path), sub.Name()), sub)
		}
	}
	walk(nil, newRootCommand(&cli{env: noEnv, given: map[string][]string{}}))
}

// goneReader is a pipe whose reader has closed it.
type goneReader struct{ err error }

func (g goneReader) Write([]byte) (int, error) { return 0, g.err }

// TestPipe checks that a closed pipe is no failure and does not change the code, and that a full disk is one.
func TestPipe(t *testing.T) {
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	testkit.Must(t, os.MkdirAll(node+"/var/lib/kubelet/pods/backup", 0o700))
	if code := runOnNode(node, []string{"sweep"}, nil, io.Discard, io.Discard, noEnv); code != 3 {
		t.Fatalf("sweep: code %d", code)
	}
	line := `E0331 15:47:45.892216    3416 kubelet_volumes.go:245] "There were many similar errors. Turn up verbosity to see them." err="orphaned ` +
		`pod \"0badf00d-6131-4aaa-8bbb-cccc00006131\" found, but volume paths are still present on disk" numErrs=1` + "\n"
	for _, c := range []struct {
		args         []string
		gone, failed int
	}{
		{[]string{"scan"}, 3, 1},
		{[]string{"scan", "-o", "json"}, 3, 1},
		{[]string{"version"}, 0, 1},
		{[]string{"doctor"}, 3, 1},
		{[]string{"doctor", "-o", "json"}, 3, 1},
		{[]string{"parse"}, 0, 1},
		{[]string{"completion", "bash"}, 0, 1},
		{[]string{"quarantine", "list"}, 0, 1},
	} {
		in := strings.NewReader(strings.Repeat(line, 100))
		if code := runOnNode(node, c.args, in, goneReader{syscall.EPIPE}, io.Discard, noEnv); code != c.gone {
			t.Errorf("%v into a closed pipe: code %d, want %d", c.args, code, c.gone)
		}
		in = strings.NewReader(strings.Repeat(line, 100))
		if code := runOnNode(node, c.args, in, goneReader{syscall.ENOSPC}, io.Discard, noEnv); code != c.failed {
			t.Errorf("%v onto a full disk: code %d, want %d", c.args, code, c.failed)
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, ok := range map[string]bool{"yes\n": true, "yes": true, "y\n": false, "\n": false, "": false, "YES\n": false, "no\nyes\n": false} {
		err := readAnswer(strings.NewReader(answer))
		if ok != (err == nil) || (!ok && !errors.Is(err, errNotConfirmed)) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
