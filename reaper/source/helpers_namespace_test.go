package source

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// startJournald starts the host's own systemd-journald in this mount namespace, with an empty /run and an empty
// journal.
func startJournald(t *testing.T, more string) {
	t.Helper()
	testkit.Must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, unix.Mount("tmpfs", "/var/lib/systemd", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, os.MkdirAll("/run/systemd/journald.conf.d", 0o755))
	testkit.Must(t, os.MkdirAll("/run/systemd/journal", 0o755))
	testkit.Must(t, os.WriteFile("/run/systemd/journald.conf.d/test.conf",
		[]byte("[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=\nForwardToSyslog=no\n"+more), 0o644))
	cmd := exec.CommandContext(t.Context(), journaldPath(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(patience)
	for {
		if _, err := os.Stat("/run/systemd/journal/stdout"); err == nil && len(journalFiles()) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("journald did not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func journalFiles() []string {
	machines, err := os.ReadDir("/run/log/journal")
	if err != nil {
		return nil
	}
	var all []string
	for _, m := range machines {
		all = append(all, m.Name())
	}
	return all
}

// journaldPath returns the path of journald, and skips without it or root.
func journaldPath(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald"} { // before and after the merge of /usr
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if users, err := os.ReadFile("/proc/self/uid_map"); os.Geteuid() != 0 || err != nil || strings.HasSuffix(string(users), " 1\n") {
			testkit.Skip(t, "needs root, and other users")
		}
		return p
	}
	testkit.Skip(t, "needs systemd-journald")
	return ""
}
