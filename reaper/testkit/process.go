package testkit

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// EnvProcess makes the test binary another program, as StartProcess starts it: "idle" waits
// until its standard input ends. Other roles are for the init of the tests themselves.
const EnvProcess = "ORPHAN_REAPER_TEST_PROCESS"

// This is an init rather than a test, so that the program may have any command line.
func init() {
	if os.Getenv(EnvProcess) == "idle" {
		WaitToEnd()
	}
}

// WaitToEnd says that the program is ready, and ends it when its standard input ends.
func WaitToEnd() {
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// StartProcess runs the test binary under another name and waits until it is ready. It
// ends when the test does.
func StartProcess(t *testing.T, role, path string, args ...string) *exec.Cmd {
	t.Helper()
	return StartApart(t, 0, role, path, args...)
}

// StartApart does so in new namespaces, by the flags of unshare(2).
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

// Shell starts a shell that is ready after the script, and waits until its input ends;
// it is gone when the test is. It returns its PID.
func Shell(t *testing.T, attr *syscall.SysProcAttr, dir, script string) int {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", script+"\necho ready; read -r line")
	cmd.SysProcAttr, cmd.Dir, cmd.Stderr = attr, dir, os.Stderr
	UntilReady(t, cmd)
	return cmd.Process.Pid
}

// UntilReady starts a program that writes "ready" when it is, and ends with its input.
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
		_ = cmd.Wait()
	})
	buf := make([]byte, 200)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "ready\n" {
		tb.Fatalf("%s is not ready: %q, %v", cmd, buf[:n], err)
	}
}
