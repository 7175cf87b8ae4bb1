package testkit

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// EnvProcess names the role of a test binary that StartProcess starts: "idle" waits until its standard input ends. The inits
// of tests define other roles.
const EnvProcess = "ORPHAN_REAPER_TEST_PROCESS"

// An init works with any command line, unlike a test.
func init() {
	if os.Getenv(EnvProcess) == "idle" {
		WaitToEnd()
	}
}

// WaitToEnd prints "ready", and ends the program when its standard input ends.
func WaitToEnd() {
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// StartProcess runs the test binary under another name, and waits until it is ready. The process ends with the test.
func StartProcess(t *testing.T, role, path string, args ...string) *exec.Cmd {
	t.Helper()
	return StartApart(t, 0, role, path, args...)
}

// StartApart is StartProcess in new namespaces, with the flags of unshare(2).
func StartApart(t *testing.T, flags uintptr, role, path string, args ...string) *exec.Cmd {
	t.Helper()
	// The kernel ends the process with the thread that started it, also where the tests are
	// killed while it is stopped.
	attr := &syscall.SysProcAttr{Unshareflags: flags, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	cmd := &exec.Cmd{Path: path, Args: args, Env: append(os.Environ(), EnvProcess+"="+role), Stderr: os.Stderr, SysProcAttr: attr}
	UntilReady(t, cmd)
	return cmd
}

// UntilReady starts a program and waits until it prints "ready". The test's end closes the program's standard input. A
// program that is not ready, or does not end, within a minute is killed.
func UntilReady(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	in, err := cmd.StdinPipe()
	Must(tb, err)
	out, err := cmd.StdoutPipe()
	Must(tb, err)
	if err := cmd.Start(); err != nil {
		Skip(tb, "this needs a child process, or a mount namespace for it: ", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
		_ = cmd.Wait()
	})
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	buf := make([]byte, 200)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "ready\n" {
		tb.Fatalf("%s is not ready: %q, %v", cmd, buf[:n], err)
	}
}
