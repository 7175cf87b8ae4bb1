package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	// testLoginUID names the file in which the program reads who has logged in, in place of the machine's.
	testLoginUID = "TEST_LOGINUID"
	// testNode names the directory of the node of a script.
	testNode = "TEST_NODE"
)

// TestMain makes the program a command of the tests and the scripts.
func TestMain(m *testing.M) {
	// A test that systemd started must not notify it.
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "JOURNAL_STREAM"} {
		_ = os.Unsetenv(name) // it cannot fail for these names
	}
	commands := map[string]func(){
		// The program on the node of a script.
		"orphan-reaper": func() {
			os.Exit(runOnNode(os.Getenv(testNode), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		},
		// The program with the flags of newNode.
		"orphan-reaper-whole": func() {
			if err := ownNode(os.Args[1:]); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				os.Exit(99)
			}
			var person app.Person
			if file := os.Getenv(testLoginUID); file != "" {
				person.LoginUID, person.SudoUser = file, os.Getenv("SUDO_USER")
			}
			os.Exit(runAs(person, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		},
		// A process of that name, until its input ends.
		"kubelet": func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	}
	if commands[filepath.Base(os.Args[0])] == nil {
		testkit.Alone()
	}
	testscript.Main(m, commands)
}

// nodeFlags are the flags with which the program uses the usual places below dir, and no kubelet and no runtime.
func nodeFlags(dir string) []string {
	return []string{"--node-root=" + dir, "--node-namespaces=self", "--runtime-endpoint=none", "--log-format=text"}
}

// runOnNode runs the program in this process on the node below dir. Commands that use no node get no flags.
func runOnNode(dir string, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	uses := []string{"doctor", "run", "scan", "explain", "sweep", "report", "quarantine", "config"}
	at := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(uses, arg) })
	if at >= 0 && args[0] != "fleet" && args[0] != "help" && !slices.Contains(args, "--as") {
		if !filepath.IsAbs(dir) || dir == "/" {
			_, _ = fmt.Fprintln(stderr, "a test starts the program without a node of its own")
			return 99
		}
		args = slices.Insert(slices.Clone(args), at+1, nodeFlags(dir)...)
	}
	return runAs(app.Person{}, args, stdin, stdout, stderr, env)
}

// makeNode makes the directories of a node without pods below dir.
func makeNode(dir string) error {
	for _, name := range []string{"var/lib/kubelet/pods", "sys/fs/cgroup/kubepods", "etc/cni/net.d"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv(testNode, filepath.Join(e.WorkDir, "node"))
			return makeNode(filepath.Join(e.WorkDir, "node"))
		},
		// exits N ARGS...: the program must end with exactly that code.
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs the program in this process, because exec reports only zero and other codes.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	var out, errs bytes.Buffer
	for i, a := range args {
		if strings.HasPrefix(a, "./") {
			args[i] = ts.MkAbs(a)
		}
	}
	code := runOnNode(ts.Getenv(testNode), args[1:], strings.NewReader(""), &out, &errs, ts.Getenv)
	ts.Logf("%s%s", out.String(), errs.String())
	if want := args[0]; want != fmt.Sprint(code) {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

var errTest = errors.New("the node is away")

// testNow and testUID are a moment and a pod for tests that need any.
var testNow = time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)

const testUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"

func noEnv(string) string { return "" }

// call runs the program on a node without pods.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	var out, errs bytes.Buffer
	code = runOnNode(node, args, strings.NewReader(""), &out, &errs, noEnv)
	return code, out.String(), errs.String()
}

// fits fails on a line of more than 80 columns, or so many, and on spaces at the end of a line. A row of a
// table in a pipe, with its tabs, and a command have any length.
func fits(t *testing.T, what, text string, columns ...int) {
	t.Helper()
	most := append(columns, 80)[0]
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		pasted := strings.Contains(line, " --node-root ")
		if n := utf8.RuneCountInString(line); n > most && !strings.Contains(line, "\t") && !pasted {
			t.Errorf("%s: %d columns: %s", what, n, line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("%s: space at the end: %q", what, line)
		}
	}
}
