package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/program"
)

// isProgram is set where this test binary is the program.
const isProgram = "ORPHAN_REAPER_TEST"

func TestMain(m *testing.M) {
	nodetest.Main(program.Main)
	if os.Getenv(isProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// shell is a shell on a node of testdata/node, in which tests run the program.
type shell struct {
	nodetest.Node
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// newShell makes a node. flags are those of testdata/node.
func newShell(t *testing.T, pods string, flags ...string) *shell {
	t.Helper()
	s := &shell{Node: nodetest.New(t), t: t}
	cmd := s.Command(t, pods, flags, "sh")
	cmd.Env = append(os.Environ(), isProgram+"=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends the shell, and that the node
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	s.in, s.out = in, bufio.NewScanner(out)
	if s.sh("echo $NODE_PODS") == "" {
		_ = cmd.Wait()
		nodetest.SkipRefused(t, stderr.String())
		t.Fatal(stderr.String())
	}
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// sh runs one command of the shell and returns the line that it prints.
func (s *shell) sh(line string) string {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, line)
	must(s.t, err)
	s.out.Scan()
	return s.out.Text()
}

// run runs the program with the flags of the node, and returns what it prints and its exit code.
func (s *shell) run(args string) (stdout, stderr string, code int) {
	s.t.Helper()
	exe, err := os.Executable()
	must(s.t, err)
	out, errs := filepath.Join(s.Dir, "stdout"), filepath.Join(s.Dir, "stderr")
	answer := s.sh(fmt.Sprintf("%s $OR_FLAGS %s >%s 2>%s </dev/null; echo exit $?", exe, args, out, errs))
	_, err = fmt.Sscanf(answer, "exit %d", &code)
	must(s.t, err)
	text, err := os.ReadFile(out)
	must(s.t, err)
	errText, err := os.ReadFile(errs)
	must(s.t, err)
	return string(text), string(errText), code
}

// status runs a command that prints a status.
func (s *shell) status(args string) (status reaper.Status, code int) {
	s.t.Helper()
	stdout, stderr, code := s.run(args + " -o json")
	if err := json.Unmarshal([]byte(stdout), &status); err != nil {
		s.t.Fatalf("%s: exit %d, %v\n%s%s", args, code, err, stdout, stderr)
	}
	return status, code
}

// daemon starts the daemon, and returns a function that ends it by SIGTERM.
func (s *shell) daemon(args string) (stop func()) {
	s.t.Helper()
	exe, err := os.Executable()
	must(s.t, err)
	pid := s.sh(fmt.Sprintf(": >%[3]s/daemon; %[1]s $OR_FLAGS run %[2]s </dev/null >>%[3]s/daemon 2>&1 & echo $!", exe, args, s.Dir))
	return func() {
		s.t.Helper()
		if answer := s.sh(fmt.Sprintf("kill %s; wait %s; echo exit $?", pid, pid)); answer != "exit 0" {
			text, _ := os.ReadFile(filepath.Join(s.Dir, "daemon"))
			s.t.Errorf("the daemon ended with %s after SIGTERM\n%s", answer, text)
		}
	}
}

// pods is the kubelet's pods directory.
func (s *shell) pods() string { return filepath.Join(s.Dir, "kubelet/pods") }

// waitGone waits until a pod has no directory, and waitBack until it has one.
func (s *shell) waitGone(uid string) {
	s.t.Helper()
	nodetest.Wait(s.t, s.pods(), func() bool { return !exists(filepath.Join(s.pods(), uid)) })
}

// waitLog waits until the daemon has printed a text.
func (s *shell) waitLog(text string) {
	s.t.Helper()
	nodetest.WaitFile(s.t, filepath.Join(s.Dir, "daemon"), func(b []byte) bool { return strings.Contains(string(b), text) })
}
