package source

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envNamespace names the test that runs in its own mount namespace.
const envNamespace = "ORPHAN_REAPER_TEST_NAMESPACE"

func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("REQUIRE_ROOT") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inNamespace runs the test again in a mount namespace of its own. It returns true in
// the process that should do the test's work.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envNamespace) == t.Name() {
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envNamespace+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// startJournald starts the host's own systemd-journald in this mount namespace, with an
// empty /run, and nothing of the host in its journal.
func startJournald(t *testing.T, more string) {
	t.Helper()
	must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	must(t, unix.Mount("tmpfs", "/var/lib/systemd", "tmpfs", 0, "mode=0755"))
	must(t, os.MkdirAll("/run/systemd/journald.conf.d", 0o755))
	must(t, os.MkdirAll("/run/systemd/journal", 0o755))
	must(t, os.WriteFile("/run/systemd/journald.conf.d/test.conf",
		[]byte("[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=\nForwardToSyslog=no\n"+more), 0o644))
	cmd := exec.CommandContext(t.Context(), journaldPath(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := os.Stat("/run/systemd/journal/stdout"); err == nil && len(journalFiles()) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("journald does not come up")
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

// journaldPath needs root and journald.
func journaldPath(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald"} { // before and after the merge of /usr
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if users, err := os.ReadFile("/proc/self/uid_map"); os.Geteuid() != 0 || err != nil || strings.HasSuffix(string(users), " 1\n") {
			skip(t, "needs root, and other users")
		}
		return p
	}
	skip(t, "needs systemd-journald")
	return ""
}
