package probe

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// envProcess makes the test binary another program: "idle" waits until its standard input
// ends; anything else is a socket to serve CRI at until then.
const envProcess = "ORPHAN_REAPER_TEST_PROCESS"

// envBinds has that program first bind FROM:TO, for each word; it must then be one with a
// mount namespace of its own.
const envBinds = "ORPHAN_REAPER_TEST_BINDS"

// This is an init rather than a test, so that the program may have any command line.
func init() {
	role := os.Getenv(envProcess)
	if role == "" {
		return
	}
	for bind := range strings.FieldsSeq(os.Getenv(envBinds)) {
		from, to, _ := strings.Cut(bind, ":")
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			panic(err)
		}
	}
	if role != "idle" {
		s, err := fakecri.Start(context.Background(), role, fakecri.Options{})
		if err != nil {
			panic(err)
		}
		defer s.Close()
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startProcess runs the test binary under another name and waits until it is ready. It
// ends when the test does.
func startProcess(t *testing.T, role, path string, args ...string) *exec.Cmd {
	t.Helper()
	return start(t, &exec.Cmd{Path: path, Args: args, Env: append(os.Environ(), envProcess+"="+role), SysProcAttr: &syscall.SysProcAttr{}})
}

// startApart does so in a mount namespace of its own, a slave of this one, with binds.
func startApart(t *testing.T, binds, path string, args ...string) *exec.Cmd {
	t.Helper()
	needRoot(t)
	env := append(os.Environ(), envProcess+"=idle", envBinds+"="+binds)
	return start(t, &exec.Cmd{Path: path, Args: args, Env: env, SysProcAttr: &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}})
}

func start(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel ends the process with the thread that started it, also where the tests are
	// killed while it is stopped.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		if cmd.SysProcAttr.Unshareflags != 0 {
			skipWithout(t, "a mount namespace", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("the process is not ready: %v", err)
	}
	return cmd
}

func bootTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestFindKubeletRealProcess finds a real process of that name in the real /proc.
func TestFindKubeletRealProcess(t *testing.T) {
	dir := t.TempDir()
	root, path := filepath.Join(dir, "root"), filepath.Join(dir, "kubelet")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	if fact, _ := findIn(t, "/proc", root); fact.Truth != policy.No {
		t.Fatalf("before: %+v", fact)
	}
	before := bootTime(t)
	cmd := startProcess(t, "idle", path, "/usr/bin/kubelet", "--v=2", "--root-dir", root)
	after := bootTime(t)

	fact, id := findIn(t, "/proc", root)
	if fact.Truth != policy.Yes || id.PID != cmd.Process.Pid {
		t.Errorf("%+v, %+v; want PID %d", fact, id, cmd.Process.Pid)
	}
	const tick = 10 * time.Millisecond // the kernel rounds down
	if id.Start < before-tick || id.Start > after {
		t.Errorf("started at %s, want from %s to %s", id.Start, before, after)
	}
	if fact, _ := findIn(t, "/proc", dir); fact.Truth != policy.No {
		t.Errorf("another root: %+v", fact)
	}
	if err := CheckWaived(t.Context(), "/proc", root, nil); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("waived beside a kubelet: %v", err)
	}

	// A zombie keeps its name and has no command line.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitForZombie(t, cmd.Process.Pid)
	if fact, _ := findIn(t, "/proc", root); fact.Truth != policy.No {
		t.Errorf("a zombie: %+v", fact)
	}
}

// waitForZombie waits for the end of a child and leaves it unreaped.
func waitForZombie(t *testing.T, pid int) {
	t.Helper()
	waitFor(t, pid, unix.WEXITED|unix.WNOWAIT)
}

// waitFor waits for a child to end or, with WSTOPPED, to have stopped: a signal is only
// asked for when kill(2) returns.
func waitFor(t *testing.T, pid, what int) {
	t.Helper()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, what, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// TestAskRuntimeStoppedProcess asks a runtime that is stopped in its tracks: the kernel
// takes the connection and the request for it, and no answer ever comes.
func TestAskRuntimeStoppedProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := startProcess(t, socket, self, "runtime")
	p := runtimeProbe(t, "unix://"+socket)
	if a := p.askRuntime(t.Context()); a.Lists.Truth != policy.No {
		t.Fatalf("before: %+v", a)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, cmd.Process.Pid, unix.WSTOPPED)
	p.guard.Patience = 100 * time.Millisecond
	for range 3 {
		a := p.askRuntime(t.Context())
		if a.Lists.Truth != policy.Unknown || !strings.Contains(a.Lists.Detail, "no answer in time") {
			t.Errorf("stopped: %+v", a)
		}
	}
	wantNoGRPC(t)

	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.guard.Patience = time.Minute
	if a := p.askRuntime(t.Context()); a.Lists.Truth != policy.No {
		t.Errorf("after: %+v", a)
	}
}
