package packages

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const (
	debOrphan = "2badf00d-0000-4000-8000-0000000000d1" // has no data
	debData   = "2badf00d-0000-4000-8000-0000000000d2"
	debForged = "2badf00d-0000-4000-8000-0000000000d3" // dead, and the kubelet does not report it
	debLater  = "2badf00d-0000-4000-8000-0000000000d4"
	debOwned  = "2badf00d-0000-4000-8000-0000000000d5" // has an emptyDir with files of other users
)

// killing makes the unit's filter of system calls kill a process that makes a refused one: the daemon, its journalctl and
// the shell of a reload must make none.
const killing = "etc/systemd/system/orphan-reaper.service.d/kill.conf"

// TestDEB shows the life of the package on a node: installed, at work, removed, purged, installed again.
func TestDEB(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{killing: "[Service]\nSystemCallErrorNumber=\n"})
		steps(t, n, []step{
			{"installed", debInstalled},
			{"confined", debConfined},
			{"capable", debCapable},
			{"record", debRecord},
			{"forged", debForgery},
			{"metrics", debMetrics},
			{"removed", debRemoved},
			{"purged", debPurged},
		})
	})
}

// debInstalled: apt installs, enables and starts it without a network and without a question. It follows journald, and
// moves real orphans.
func debInstalled(t *testing.T, n *node) {
	n.pod(t, debOrphan)
	n.pod(t, debData, "precious")
	if out := n.install(t); !strings.Contains(out, "mode: observe") {
		t.Errorf("the installation does not print how to observe: %s", out)
	}
	if got := n.state(); got != "enabled active" || n.show("orphan-reaper", "Type") != "notify" {
		t.Fatalf("after apt-get install the unit is %s", got)
	}
	n.goes(t, debOrphan)
	n.record(t, debData, "cleaned")
	n.holdsData(t)
	n.stays(t, living)
}

// debConfined: the filter of system calls lets openat2 and Landlock through, the daemon is in PID 1's mount namespace, and
// systemd finds no fault in the unit.
func debConfined(t *testing.T, n *node) {
	for _, word := range []string{"the kernel stops each step at a mount", "a batch can change nothing but"} {
		if len(n.journal(t, "--unit=orphan-reaper", "--grep", word)) != 1 {
			t.Errorf("the log of its start lacks %q: %s", word, kit.Texts(n.journal(t, "--unit=orphan-reaper")))
		}
	}
	own, first := n.Run(t, "readlink", "/proc/"+n.show("orphan-reaper", "MainPID")+"/ns/mnt"), n.Run(t, "readlink", "/proc/1/ns/mnt")
	if own != first {
		t.Errorf("the daemon's mount namespace is %s, and PID 1's %s", own, first)
	}
	if out, err := n.Try("bash", "-c", "systemd-analyze verify --man=no /usr/lib/systemd/system/orphan-reaper.service 2>&1"); out != "" || err != nil {
		t.Errorf("systemd-analyze verify: %v %s", err, out)
	}
	for _, e := range n.journal(t, "_PID=1", "--priority=warning") {
		if strings.Contains(e.Get("MESSAGE"), "orphan-reaper") {
			t.Errorf("systemd warns: %s", e.Get("MESSAGE"))
		}
	}
}

// debCapable: the capabilities of the unit suffice for directories that only their owners may read or change.
func debCapable(t *testing.T, n *node) {
	n.pod(t, debOwned)
	n.sh(t, "cd /var/lib/kubelet/pods/"+debOwned+"/volumes; mkdir -p kubernetes.io~empty-dir/cache/a kubernetes.io~empty-dir/cache/b; "+
		"cd kubernetes.io~empty-dir/cache; touch a/x b/x; chown -R 1000 a; chown -R 1001 b; chown 1000 b/x; chmod 0700 a; chmod 1755 b; cd ../..; find . -exec touch -d '1 hour ago' {} +")
	n.goes(t, debOwned)
}

// debRecord checks the record in the journal, with the catalog's text.
func debRecord(t *testing.T, n *node) {
	e := n.record(t, debOrphan, "removed")
	if e.Get("_EXE") != "/usr/sbin/orphan-reaper" || e.Get("SYSLOG_IDENTIFIER") != "orphan-reaper" {
		t.Errorf("the record of the removal: %v", e)
	}
	out := n.Run(t, "journalctl", "--no-pager", "-x", "-u", "orphan-reaper", "MESSAGE_ID="+e.Get("MESSAGE_ID"), "ORPHAN_REAPER_POD_UID="+debOrphan)
	for _, word := range []string{"Subject: ", "Defined-By: orphan-reaper", "Pod " + debOrphan} {
		if !strings.Contains(out, word) {
			t.Errorf("journalctl -x does not print %q: %s", word, out)
		}
	}
}

// debForgery: journald's trusted fields show that other programs wrote the kubelet's words, also with its PID in the text.
func debForgery(t *testing.T, n *node) {
	n.knows(t, debForged)
	n.pod(t, debForged)
	line := "E$(date '+%m%d %H:%M:%S.%6N') " + n.show("kubelet", "MainPID") + ` kubelet_volumes.go:263] "There were many similar errors." ` +
		`err="orphaned pod \"` + debForged + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1`
	line = `"$(cat <<END` + "\n" + line + "\nEND\n" + `)"`
	n.sh(t, "systemd-cat -t kubelet printf '%s\\n' "+line)
	n.sh(t, "systemd-run --wait --collect --quiet --unit=kubelet-x printf '%s\\n' "+line)
	n.sh(t, "logger -t kubelet -- "+line)
	n.pod(t, debLater)
	n.goes(t, debLater)
	n.stays(t, debForged)
	n.waitReason(t, debForged, "not-reported")
	if err := n.unknown(debForged); err != nil {
		t.Fatal(err)
	}
	n.goes(t, debForged) // only the kubelet's report was missing
}

// debMetrics: Debian's node exporter serves the metrics file.
func debMetrics(t *testing.T, n *node) {
	kit.Eventually(t, patience, func() string {
		page, err := n.exporter()
		return kit.Missing(err == nil && strings.Contains(page, "\norphan_reaper_events_total{event=\"removed\"} 4\n"),
			"the exporter returns: %v %s", err, lines(page, "orphan_reaper"))
	})
}

// debRemoved: state, configuration and quarantine are kept; the unit and its metrics are removed.
func debRemoved(t *testing.T, n *node) {
	out := n.sh(t, "apt-get remove -y orphan-reaper 2>&1")
	for _, word := range []string{"the quarantine is not empty", debData[:8], "/var/lib/orphan-reaper", "/etc/orphan-reaper"} {
		if !strings.Contains(out, word) {
			t.Errorf("the removal does not print %q: %s", word, out)
		}
	}
	if !kit.Exists(n.Path(config)) {
		t.Error("the configuration was removed")
	}
	n.uninstalled(t)
	n.holdsData(t)
}

// uninstalled checks that no program, no unit and no metrics are left, and that the state is kept.
func (n *node) uninstalled(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/usr/sbin/orphan-reaper", "/usr/lib/systemd/system/orphan-reaper.service"} {
		if kit.Exists(n.Path(path)) {
			t.Errorf("%s still exists", path)
		}
	}
	if got := n.show("orphan-reaper", "ActiveState"); got != "inactive" {
		t.Errorf("the unit is %s", got)
	}
	if !kit.Exists(n.Path("/var/lib/orphan-reaper/ledger.jsonl")) {
		t.Error("the state was removed")
	}
	kit.Eventually(t, patience, func() string {
		page, err := n.exporter()
		return kit.Missing(err == nil && !strings.Contains(page, "orphan_reaper"), "the exporter still returns: %v %s", err, lines(page, "orphan_reaper"))
	})
}

// debPurged: what may be data of a user is never removed, nor what a restore needs. Without it everything is removed.
func debPurged(t *testing.T, n *node) {
	if out := n.sh(t, "apt-get purge -y orphan-reaper 2>&1"); !strings.Contains(out, ours+" (size: ") {
		t.Errorf("purge does not print where the data is: %s", out)
	}
	n.holdsData(t)
	n.install(t)
	if out := n.sh(t, "orphan-reaper quarantine list"); !strings.Contains(out, debData[:8]) {
		t.Errorf("installed again, the quarantine is %s", out)
	}
	n.sh(t, "systemctl stop orphan-reaper; orphan-reaper quarantine purge --yes "+debData)
	n.sh(t, "apt-get purge -y orphan-reaper")
	for _, path := range []string{"/etc/orphan-reaper", "/var/lib/orphan-reaper", ours} {
		if kit.Exists(n.Path(path)) {
			t.Errorf("%s still exists: %s", path, n.Run(t, "ls", "-laR", path))
		}
	}
	n.stays(t, living)
}

// lines returns the lines of a long text that a failure prints.
func lines(text, word string) string {
	var found strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) && !strings.HasPrefix(line, "#") {
			found.WriteString(line)
		}
	}
	return found.String()
}
