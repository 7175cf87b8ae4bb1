package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// background is the program at work while a test goes on: the daemon, or a sweep that waits.
type background struct {
	cmd *exec.Cmd
	t   testing.TB
	log string
}

// start starts a command. It ends with the test at the latest.
func (n *wholeNode) start(cmd *exec.Cmd) *background {
	n.t.Helper()
	log, err := os.CreateTemp(n.t.TempDir(), "stderr")
	testkit.Must(n.t, err)
	defer closeFile(log)
	cmd.Stderr = log
	testkit.Must(n.t, cmd.Start())
	b := &background{cmd, n.t, log.Name()}
	n.t.Cleanup(func() { b.end() })
	return b
}

// said returns what it has written to stderr so far.
func (b *background) said() string {
	b.t.Helper()
	text, err := os.ReadFile(b.log)
	testkit.Must(b.t, err)
	return string(text)
}

// says waits until it has written the words.
func (b *background) says(words string) {
	b.t.Helper()
	until(b.t, words, func() bool { return strings.Contains(b.said(), words) })
}

// end sends SIGTERM, and returns the exit code.
func (b *background) end() int {
	b.t.Helper()
	if b.cmd.ProcessState == nil {
		_ = b.cmd.Process.Signal(syscall.SIGTERM)                                     // it may have ended
		defer time.AfterFunc(time.Minute, func() { _ = b.cmd.Process.Kill() }).Stop() // it hangs
		_ = b.cmd.Wait()                                                              // the exit code is returned
	}
	return b.cmd.ProcessState.ExitCode()
}

// until waits for something, and fails the test where it does not come.
func until(tb testing.TB, what string, come func() bool) {
	tb.Helper()
	for end := time.Now().Add(30 * time.Second); !come(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("this does not come: ", what)
		}
	}
}

// appears waits for a file that the program writes, and that is not empty.
func (n *wholeNode) appears(name string) {
	n.t.Helper()
	until(n.t, name, func() bool {
		info, err := os.Stat(n.path(name))
		return err == nil && info.Size() > 1
	})
}

// TestSweepInterrupted: the first SIGTERM ends a sweep that waits, with exit code 1.
func TestSweepInterrupted(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, false)
	n.args = append(n.args, "--hold", "1h", "--confirm", "1h")
	sweep := n.start(n.command("sweep"))
	sweep.says("Waiting with ")
	if code := sweep.end(); code != 1 || !strings.Contains(sweep.said(), "orphan-reaper: error: interrupted\n") {
		t.Errorf("exit code %d: %s", code, sweep.said())
	}
}
