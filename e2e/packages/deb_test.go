package packages

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	debOrphan = "2badf00d-0000-4000-8000-0000000000d1" // contains no user data
	debData   = "2badf00d-0000-4000-8000-0000000000d2" // contains user data
)

// TestDEB checks the life of the package on a node: installed, at work, upgraded, removed, purged, installed again.
func TestDEB(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{dropIn: quick})
		steps(t, n, []step{
			{"installed", debInstalled},
			{"record", debRecord},
			{"metrics", debMetrics},
			{"removed", debRemoved},
			{"purged", debPurged},
		})
	})
}

// dropIn is the administrator's change of the unit; flags override the configuration, so that this daemon is fast
// from its first start.
const (
	dropIn = "etc/systemd/system/orphan-reaper.service.d/quick.conf"
	quick  = "[Service]\nExecStart=\nExecStart=/usr/sbin/orphan-reaper run --hold 2s --confirm 5s\n"
)

// debInstalled: apt installs, enables and starts it without a network and without a question. It is ready, follows
// journald, and removes a real orphan.
func debInstalled(t *testing.T, n *node) {
	n.pod(t, debOrphan)
	n.pod(t, debData)
	lay(t, filepath.Join(n.dirOf(debData), "volumes", nfs, "vol", "precious"), users)
	began := time.Now()
	out := n.install(t)
	installed := time.Since(began)
	for _, word := range []string{"good: /etc/orphan-reaper/config.yaml", "A daemon that starts now enforces: ", "hold (2s)", "mode: observe"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), word) {
			t.Errorf("the installation does not print %q: %s", word, out)
		}
	}
	if got := n.state(); got != "enabled active notify" {
		t.Fatalf("after apt-get install the unit is %s", got)
	}
	n.logs(t, "names", living, debOrphan, debData)
	n.goes(t, debOrphan)
	show("%s: apt-get install took %s; the first orphan was reaped %s after its start (hold 2 s, confirm 5 s; by default 5 min each)",
		n.release, installed.Round(10*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	n.waitRecord(t, debData, policy.KindParked, "")
	n.stays(t, living)
	n.holdsData(t)
	n.started(t, "following journald", "It enforces: ", "hold (2s)")
	// In the real unit, which filters system calls.
	for _, word := range []string{"the walker uses openat2", "Landlock confines each batch"} {
		if all := n.journal(t, "--unit=orphan-reaper", "--grep", word); len(all) != 1 {
			t.Errorf("the log of its start lacks %q: %s", word, kit.Texts(n.journal(t, "--unit=orphan-reaper")))
		}
	}
}

// debRecord checks the record in the journal, by its fields and with the catalog's text.
func debRecord(t *testing.T, n *node) {
	e := n.waitRecord(t, debOrphan, policy.KindRemoved, "")
	if e.Get("MESSAGE_ID") != "4ea9a81c415a40cb96e0a1a629658fc7" || e.Get("_EXE") != "/usr/sbin/orphan-reaper" {
		t.Errorf("the record of the removal: %v", e)
	}
	out := n.Run(t, "journalctl", "--no-pager", "-x", "-u", "orphan-reaper", "MESSAGE_ID="+e.Get("MESSAGE_ID"), "ORPHAN_REAPER_POD_UID="+debOrphan)
	for _, word := range []string{"Subject: ", "Defined-By: orphan-reaper", "Documentation: "} {
		if !strings.Contains(out, word) {
			t.Errorf("journalctl -x does not print %q: %s", word, out)
		}
	}
}

// debMetrics checks that Debian's node exporter serves the metrics file.
func debMetrics(t *testing.T, n *node) {
	eventually(t, patience, func() string {
		page, err := n.exporter()
		return missing(err == nil && strings.Contains(page, "\norphan_reaper_reaped_pods_total 1\n"), "the exporter says: %v %s", err, grep(page, "orphan_reaper"))
	})
}

// debRemoved checks that state, configuration and quarantine are kept, and that the unit and its metrics are removed.
func debRemoved(t *testing.T, n *node) {
	out := n.sh(t, "apt-get remove -y orphan-reaper 2>&1")
	for _, word := range []string{"/var/lib/kubelet/orphan-reaper (entries: 1, size: ", "/var/lib/orphan-reaper", "/etc/orphan-reaper"} {
		if !strings.Contains(out, word) {
			t.Errorf("the removal does not print %q: %s", word, out)
		}
	}
	if !exists(n.Path(config)) {
		t.Error("the configuration was removed")
	}
	n.uninstalled(t)
	n.noMetrics(t)
	n.holdsData(t)
}

// uninstalled checks that no program and no unit remains, and that the state is kept.
func (n *node) uninstalled(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/usr/sbin/orphan-reaper", "/opt/orphan-reaper", "/usr/lib/systemd/system/orphan-reaper.service", "/etc/systemd/system/orphan-reaper.service"} {
		if exists(n.Path(path)) {
			t.Errorf("%s still exists", path)
		}
	}
	if got := n.show("orphan-reaper", "ActiveState"); got != "inactive" {
		t.Errorf("the unit is %s", got)
	}
	if !exists(n.Path("/var/lib/orphan-reaper")) {
		t.Error("the state was removed")
	}
}

// noMetrics checks that the node exporter no longer exports the daemon's metrics.
func (n *node) noMetrics(t *testing.T) {
	t.Helper()
	eventually(t, patience, func() string {
		page, err := n.exporter()
		return missing(err == nil && !strings.Contains(page, "orphan_reaper"), "the exporter still says: %v %s", err, grep(page, "orphan_reaper"))
	})
}

// debPurged checks that possible user data is never touched, that its place is printed, and that the files that a
// restore needs are kept. Without user data everything is removed.
func debPurged(t *testing.T, n *node) {
	out := n.sh(t, "apt-get purge -y orphan-reaper 2>&1")
	if !strings.Contains(out, "/var/lib/kubelet/orphan-reaper (entries: 1, size: ") {
		t.Errorf("purge does not print where the data is: %s", out)
	}
	n.holdsData(t)
	n.sh(t, "apt-get install -y ./orphan-reaper_*_amd64.deb")
	eventually(t, patience, func() string { return missing(n.state() == "enabled active notify", "installed again: %s", n.state()) })
	if out := n.sh(t, "orphan-reaper quarantine list"); !strings.Contains(out, debData) {
		t.Errorf("installed again, the quarantine is %s", out)
	}
	n.sh(t, "systemctl stop orphan-reaper; orphan-reaper quarantine purge --yes "+debData)
	n.sh(t, "apt-get purge -y orphan-reaper")
	for _, path := range []string{"/etc/orphan-reaper", "/var/lib/orphan-reaper", "/var/lib/kubelet/orphan-reaper"} {
		if exists(n.Path(path)) {
			t.Errorf("%s still exists: %s", path, n.Run(t, "ls", "-laR", path))
		}
	}
	n.stays(t, living)
}

func (n *node) state() string {
	enabled, _ := n.Try("systemctl", "is-enabled", "orphan-reaper")
	active, _ := n.Try("systemctl", "is-active", "orphan-reaper")
	return enabled + " " + active + " " + n.show("orphan-reaper", "Type")
}

// started checks the daemon's messages at its last start.
func (n *node) started(t *testing.T, words ...string) {
	t.Helper()
	all := n.journal(t, "--identifier=orphan-reaper", "MESSAGE_ID=31ef80b5113940adaecfb7a43fd035cc")
	if len(all) == 0 {
		t.Fatal("the log has no start")
	}
	out := all[len(all)-1].Get("MESSAGE")
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("the log of its start lacks %q: %s", word, out)
		}
	}
}

// holdsData checks that the user data is in quarantine, unchanged.
func (n *node) holdsData(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob(n.Path("/var/lib/kubelet/orphan-reaper/*/volumes/" + nfs + "/vol/precious"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the user's file: %v %v; the quarantine: %s", found, err, n.Run(t, "find", "/var/lib/kubelet/orphan-reaper"))
	}
	if got := n.Run(t, "cat", strings.TrimPrefix(found[0], n.Path("/"))); got != users {
		t.Errorf("the user's file is %q", got)
	}
}

// exporter queries the guest's node exporter with programs that every Debian has.
func (n *node) exporter() (string, error) {
	return n.Try("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9100; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`)
}

// grep returns the lines of a long text that a failure prints.
func grep(text, word string) string {
	var found strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			fmt.Fprint(&found, line)
		}
	}
	return found.String()
}
