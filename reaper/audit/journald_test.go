package audit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRealJournald sends to the host's own systemd-journald, started in a mount namespace with an empty /run,
// and runs the journalctl commands of the README.
func TestRealJournald(t *testing.T) {
	daemon := "/usr/lib/systemd/systemd-journald"
	if _, err := os.Stat(daemon); err != nil {
		daemon = "/lib/systemd/systemd-journald" // Debian before the merge of /usr
	}
	testkit.NeedCommand(t, daemon)
	testkit.NeedCommand(t, "journalctl")
	if users, err := os.ReadFile("/proc/self/uid_map"); os.Geteuid() != 0 || err != nil || strings.HasSuffix(string(users), " 1\n") {
		testkit.Skip(t, "needs root, and other users")
	}
	if !testkit.InNamespace(t) {
		return
	}
	testkit.Must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, unix.Mount("tmpfs", "/var/lib/systemd", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, os.MkdirAll("/run/systemd/journald.conf.d", 0o755))
	testkit.Must(t, os.MkdirAll("/run/systemd/journal", 0o755))
	// Nothing of the host is read or switched on: not the kernel's log, not auditing.
	testkit.Must(t, os.WriteFile("/run/systemd/journald.conf.d/test.conf",
		[]byte("[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=\nRateLimitIntervalSec=0\n"), 0o644))
	cmd := exec.CommandContext(t.Context(), daemon)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	testkit.Must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	r := sample(policy.KindParked)
	r.PodName = nasty[0]
	deadline := time.Now().Add(10 * time.Second)
	for NewJournal(JournalOptions{}).Record(r) != nil {
		if time.Now().After(deadline) {
			t.Fatal("journald does not listen")
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Kind, r.VolData = policy.KindRemoved, map[string]string{"vol_data.json": `{"volumeHandle":"` + strings.Repeat("x", 400<<10) + `"}`}
	testkit.Must(t, NewJournal(JournalOptions{}).Record(r))
	r.UID, r.VolData = "another", nil
	testkit.Must(t, NewJournal(JournalOptions{}).Record(r))

	// Sent records are in the journal once journald has answered a request to sync.
	out, err := exec.CommandContext(t.Context(), "journalctl", "--sync").CombinedOutput()
	if err != nil {
		t.Fatalf("journalctl --sync: %v\n%s", err, out)
	}
	ask := func(args ...string) (found []map[string]any) {
		t.Helper()
		args = append([]string{"--output=json", "--all", "--quiet"}, args...)
		out, err := exec.CommandContext(t.Context(), "journalctl", args...).Output()
		testkit.Must(t, err)
		for line := range strings.Lines(string(out)) {
			var e map[string]any
			testkit.Must(t, json.Unmarshal([]byte(line), &e))
			found = append(found, e)
		}
		return found
	}
	story := ask("-t", "orphan-reaper", "ORPHAN_REAPER_POD_UID="+testUID)
	if len(story) != 2 || story[0]["ORPHAN_REAPER_KIND"] != "parked" || story[1]["ORPHAN_REAPER_KIND"] != "removed" {
		t.Fatalf("the pod's story is %.500v", story)
	}
	if story[0]["ORPHAN_REAPER_POD_NAME"] != nasty[0] || story[0]["PRIORITY"] != "5" {
		t.Errorf("the record is %v", story[0])
	}
	if data, ok := story[1]["ORPHAN_REAPER_VOL_DATA"].(string); !ok || len(data) < 400<<10 {
		t.Error("a large field did not arrive")
	}
	explained(t, r.Entry)
	if found := ask("MESSAGE_ID=" + policy.KindRemoved.Means().ID); len(found) != 2 {
		t.Errorf("%d records by message ID, want 2", len(found))
	}
	if found := ask("ORPHAN_REAPER_POD_UID=forged"); len(found) != 0 {
		t.Errorf("a pod's name forged a field: %v", found)
	}
	if files, err := filepath.Glob("/run/log/journal/*/*"); err != nil || len(files) == 0 {
		t.Errorf("journald wrote elsewhere: %v, %v", files, err)
	}
}

// explained checks the catalog's text for the parked record in journalctl -x, with the record's own fields in
// it.
func explained(t *testing.T, entry string) {
	t.Helper()
	text, err := os.ReadFile(catalogFile)
	testkit.Must(t, err)
	testkit.Must(t, unix.Mount("tmpfs", "/usr/lib/systemd/catalog", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, os.WriteFile("/usr/lib/systemd/catalog/orphan-reaper.catalog", text, 0o644))
	testkit.Must(t, os.MkdirAll("/var/lib/systemd/catalog", 0o755))
	out, err := exec.CommandContext(t.Context(), "journalctl", "--update-catalog").CombinedOutput()
	if err != nil {
		t.Fatalf("journalctl --update-catalog: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "journalctl", "-x", "--no-pager", "-t", "orphan-reaper", "ORPHAN_REAPER_KIND=parked").CombinedOutput()
	testkit.Must(t, err)
	for _, want := range []string{
		"Subject: A dead pod's directory was moved to quarantine", "that pod " + testUID + " lives", "as " + entry + ".",
		"    orphan-reaper quarantine restore " + testUID,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("journalctl -x does not print %q:\n%s", want, out)
		}
	}
}
