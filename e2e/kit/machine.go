package kit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is a Debian that boots in a container, with a systemd of its own as PID 1 and its journald.
type Machine struct {
	Process

	Leader int // its PID 1, as we see it; 0 until it is found
}

// Boot has a shell start the machine: its script ends in systemd-nspawn. Its console is the log.
func Boot(t *testing.T, log string, attr unix.SysProcAttr, args ...string) Machine {
	t.Helper()
	// Unshareflags makes all mounts private, too (syscall.SysProcAttr); a session of its own
	// keeps the machine from our terminal.
	attr.Setsid, attr.Unshareflags = true, unix.CLONE_NEWNS
	cmd := exec.Command("sh", args...)
	cmd.SysProcAttr = &attr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "SYSTEMD_LOG_LEVEL=info"}
	return Machine{Process: Start(t, log, cmd)}
}

// Booted waits until its systemd has started its units.
func (m *Machine) Booted(t *testing.T, limit time.Duration) {
	t.Helper()
	Eventually(t, limit, func() string {
		if !m.Running() {
			t.Fatalf("it has not booted: %s", m.Tail(20))
		}
		if m.Leader == 0 {
			m.Leader = firstOf(m.Cmd.Process.Pid)
		}
		if m.Leader == 0 || !Exists(m.Path("/run/systemd/private")) {
			return "no systemd: " + m.Tail(20)
		}
		out, _ := m.Try("systemctl", "is-system-running") // degraded is an exit code, too
		return Missing(out == "running" || out == "degraded", "it is %s: %s", out, m.Tail(20))
	})
}

// firstOf returns the child that is PID 1 of a PID namespace below, 0 where there is none.
func firstOf(parent int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return 0
	}
	for child := range strings.FieldsSeq(string(b)) {
		status, err := os.ReadFile("/proc/" + child + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == "1" {
				pid, err := strconv.Atoi(child)
				if err == nil {
					return pid
				}
			}
		}
	}
	return 0
}

// KeepJournal writes the machine's journal to a file, where KeepLogs finds it.
func (m *Machine) KeepJournal(path string) {
	if m.Leader != 0 {
		out, _ := m.Try("journalctl", "--no-pager", "-o", "short-precise")
		_ = os.WriteFile(path, []byte(out), 0o600)
	}
}

// Path is a path of the machine as we can use it: /proc/PID/root leads into its mount namespace (proc_pid_root(5)). No
// symlink in it may be absolute.
func (m *Machine) Path(elements ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(m.Leader), "root"}, elements...)...)
}

// Try runs a command in all the machine's namespaces, and returns its output without the end of line. It remains in our
// cgroup, so journald assigns it to no unit.
func (m *Machine) Try(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.Leader), "--all", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, e.Stderr, out)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// Run is Try for what must go well.
func (m *Machine) Run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.Try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
