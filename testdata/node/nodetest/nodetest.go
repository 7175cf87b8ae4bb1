// Package nodetest runs commands on nodes of testdata/node in tests, changes these nodes and waits for what happens there.
package nodetest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// Node is a node below Dir. The same tests may use it from inside and from outside.
type Node struct {
	Dir string
}

// New returns a node in a temporary directory.
func New(tb testing.TB) Node {
	tb.Helper()
	return Node{tb.TempDir()}
}

// Here returns the node in which this process runs.
func Here() Node { return Node{filepath.Dir(os.Getenv("NODE_CTL"))} }

// Main runs the program testdata/node, or one of its processes, if this test binary was started as one of these. TestMain
// calls it first of all, with program.Main.
func Main(program func() (code int, ok bool)) {
	if code, ok := program(); ok {
		os.Exit(code)
	}
	isProgram = true
}

// isProgram is true if this test binary can be started as testdata/node.
var isProgram bool

// Command returns a command that runs on the node. pods is the content of FILE, and flags are those of testdata/node.
func (n Node) Command(tb testing.TB, pods string, flags []string, command ...string) *exec.Cmd {
	tb.Helper()
	if !isProgram {
		tb.Fatal("TestMain does not call nodetest.Main")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"node"}, n.args(tb, pods, flags, command...)...)
	return cmd
}

// args returns the arguments of testdata/node for a command.
func (n Node) args(tb testing.TB, pods string, flags []string, command ...string) []string {
	tb.Helper()
	args := slices.Clone(flags)
	if pods != "" {
		file := filepath.Join(tb.TempDir(), "pods")
		testkit.Must(tb, os.WriteFile(file, []byte(pods), 0o600))
		args = append(args, "--pods", file)
	}
	return append(append(args, n.Dir, "--"), command...)
}

// SkipRefused skips the test if the output is of a node that got no namespaces here.
func SkipRefused(tb testing.TB, output string) {
	tb.Helper()
	if i := strings.Index(output, "cannot make namespaces: "); i >= 0 {
		testkit.Skip(tb, strings.TrimSpace(output[i:]))
	}
}

// Control changes the node and waits until that is done.
func (n Node) Control(tb testing.TB, line string) {
	tb.Helper()
	if result := n.Try(tb, line); result != "ok "+line {
		tb.Fatal(result)
	}
}

// Try is Control for a line that may fail. It returns the line of NODE_CTL.done.
func (n Node) Try(tb testing.TB, line string) string {
	tb.Helper()
	done := filepath.Join(n.Dir, "ctl.done")
	before := read(tb, done)
	f, err := os.OpenFile(filepath.Join(n.Dir, "ctl"), os.O_WRONLY|os.O_APPEND, 0)
	testkit.Must(tb, err)
	_, err = f.WriteString(line + "\n")
	testkit.Must(tb, errors.Join(err, f.Close()))
	result := regexp.MustCompile(`(?m)^(ok ` + regexp.QuoteMeta(line) + `|error ` + regexp.QuoteMeta(line) + `: .*)$`)
	return string(result.Find(WaitFile(tb, done, func(text []byte) bool { return result.Match(text[len(before):]) })[len(before):]))
}

// Ended waits until a control that takes its time has ended.
func (n Node) Ended(tb testing.TB, line string) {
	tb.Helper()
	WaitFile(tb, filepath.Join(n.Dir, "ctl.done"), func(text []byte) bool { return bytes.Contains(text, []byte("ended "+line+"\n")) })
}

// WaitFile waits until the content of a file is as wanted, and returns it.
func WaitFile(tb testing.TB, path string, want func(text []byte) bool) []byte {
	tb.Helper()
	var text []byte
	Wait(tb, path, func() bool {
		text = read(tb, path)
		return want(text)
	})
	return text
}

// Wait waits for a condition that holds only after a change of a file, or of a directory's entries.
func Wait(tb testing.TB, path string, holds func() bool) {
	tb.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	testkit.Must(tb, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO|unix.IN_ATTRIB)
	testkit.Must(tb, err)
	for events := make([]byte, 4096); !holds(); {
		if _, err := unix.Read(fd, events); err != nil && !errors.Is(err, unix.EINTR) {
			tb.Fatal(err)
		}
	}
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(tb, err)
	return text
}
