package packages

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const (
	badDisk     = "2badf00d-0000-4000-8000-000000000091"
	badFull     = "2badf00d-0000-4000-8000-000000000092"
	badKubelet  = "2badf00d-0000-4000-8000-000000000093"
	badTextfile = "2badf00d-0000-4000-8000-000000000094"
	badJournal  = "2badf00d-0000-4000-8000-000000000095"
	badLedger   = "2badf00d-0000-4000-8000-000000000096"
	badSilence  = "2badf00d-0000-4000-8000-000000000097"
)

// TestBadDays has one thing after the other fail on one node. In the end a pod is removed each time, and nothing is lost.
func TestBadDays(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{
			"etc/systemd/system/orphan-reaper.service.d/zz.conf": "[Service]\n" + hasty,
			// The state is on a disk of its own, which can be filled.
			"etc/systemd/system/var-lib-orphan\\x2dreaper.mount": "[Mount]\nWhat=tmpfs\nWhere=/var/lib/orphan-reaper\nType=tmpfs\nOptions=size=32M,mode=0700\n",
		})
		n.Run(t, "systemctl", "start", `var-lib-orphan\x2dreaper.mount`)
		n.install(t)
		steps(t, n, []step{
			{"disk", badDayDisk},
			{"full", badDayFull},
			{"kubelet", badDayKubelet},
			{"textfile", badDayTextfile},
			{"journal", badDayJournal},
			{"ledger", badDayLedger},
		})
	})
}

// badDayDisk: the kubelet's root is a disk of its own that is mounted after the daemon's start, and can be unmounted while
// the daemon runs: no handle keeps it busy.
func badDayDisk(t *testing.T, n *node) {
	const root = "/var/lib/kubelet"
	n.sh(t, "systemctl stop kubelet; rm -r "+root+"; mkdir "+root)
	n.sh(t, "systemctl restart orphan-reaper || true") // it waits for the disk, or is started again until there is one
	n.Run(t, "mount", "-t", "tmpfs", "tmpfs", root)
	n.pod(t, living)
	n.pod(t, badDisk)
	n.Run(t, "systemctl", "start", "kubelet")
	n.goes(t, badDisk)
	n.stays(t, living)
	pid := n.show("orphan-reaper", "MainPID")
	n.Run(t, "systemctl", "stop", "kubelet")
	kit.Eventually(t, patience, func() string {
		_, err := n.Try("umount", root)
		return kit.Missing(err == nil, "the disk cannot be unmounted: %v", err)
	})
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	n.pod(t, living)
	n.Run(t, "systemctl", "start", "kubelet")
}

// badDayFull: the disk of the state is full, and the ledger's reserve suffices.
func badDayFull(t *testing.T, n *node) {
	n.sh(t, "dd if=/dev/zero of=/var/lib/orphan-reaper/fill bs=64k 2>/dev/null || true")
	n.pod(t, badFull)
	n.goes(t, badFull)
	n.sh(t, "rm /var/lib/orphan-reaper/fill")
}

// badDayKubelet: without a kubelet nothing is moved.
func badDayKubelet(t *testing.T, n *node) {
	n.Run(t, "systemctl", "stop", "kubelet")
	n.pod(t, badKubelet)
	n.waitReason(t, badKubelet, "no-kubelet")
	n.stays(t, badKubelet)
	n.Run(t, "systemctl", "start", "kubelet")
	n.goes(t, badKubelet)
}

// badDayTextfile: the node exporter's directory disappears and returns, and so do the metrics.
func badDayTextfile(t *testing.T, n *node) {
	n.sh(t, "systemctl stop prometheus-node-exporter; mv /var/lib/prometheus /var/lib/elsewhere; systemctl restart orphan-reaper")
	n.pod(t, badTextfile)
	n.goes(t, badTextfile)
	if kit.Exists(n.Path("/var/lib/prometheus")) {
		t.Error("the daemon made another package's directory")
	}
	n.sh(t, "mv /var/lib/elsewhere /var/lib/prometheus; systemctl start prometheus-node-exporter; systemctl restart orphan-reaper")
	kit.Eventually(t, patience, func() string {
		page, err := n.exporter()
		return kit.Missing(err == nil && strings.Contains(page, "\norphan_reaper_"), "the exporter returns: %v", err)
	})
}

// badDayJournal: the journal is lost with every boot, and the ledger still has the pods' history.
func badDayJournal(t *testing.T, n *node) {
	n.pod(t, badJournal, "precious")
	n.record(t, badJournal, "cleaned")
	n.holdsData(t)
	n.sh(t, "systemctl stop systemd-journald; rm -rf /run/log/journal/* /var/log/journal/*; systemctl start systemd-journald")
	// A journald that is stopped and not restarted leaves its clients without stderr.
	n.Run(t, "systemctl", "restart", "kubelet", "orphan-reaper")
	if left := n.of(t, badJournal); len(left) > 0 {
		t.Fatalf("the journal still has the records: %s", kit.Texts(left))
	}
	for uid, word := range map[string]string{badJournal: "quarantined", badTextfile: "removed"} {
		out, _ := n.Try("orphan-reaper", "explain", uid, "-o", "json") // its exit code may ask for the operator
		if !strings.Contains(out, `"kind": "`+word+`"`) {
			t.Errorf("explain %s: %s", uid, out)
		}
	}
}

// badDayLedger: with a damaged ledger nothing is moved and nothing is removed, until an operator has moved it away. What lies
// in the quarantine is then shown, and stays.
func badDayLedger(t *testing.T, n *node) {
	n.sh(t, "systemctl stop orphan-reaper; sed -i '2s/\"seq\":/\"sex\":/' /var/lib/orphan-reaper/ledger.jsonl")
	n.sh(t, "systemctl start orphan-reaper || true")
	n.pod(t, badLedger)
	kit.Eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "ledger.jsonl")
		return kit.Missing(len(all) > 0, "the log does not name the ledger")
	})
	n.stays(t, badLedger)
	n.holdsData(t)
	n.sh(t, "mv /var/lib/orphan-reaper/ledger.jsonl /root; systemctl restart orphan-reaper")
	n.goes(t, badLedger)
	n.holdsData(t)
	if out := n.sh(t, "orphan-reaper quarantine list || [ $? = 3 ]"); !strings.Contains(out, badJournal[:8]) {
		t.Errorf("the quarantine is %s", out)
	}
	n.stays(t, living)
}

// TestWithoutJournald: without journald the kubelet's log is read from a file, and the daemon's log goes where systemd
// redirects it.
func TestWithoutJournald(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		const logFile = "/var/log/orphan-reaper.log"
		n := newNode(t, release, map[string]string{
			dropIn: quick + "StandardError=append:" + logFile + "\n",
			"etc/systemd/system/kubelet.service.d/file.conf": "[Service]\nStandardError=append:/var/log/kubelet.log\n",
		})
		n.install(t)
		n.sh(t, "systemctl mask --runtime --now systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald.service; "+
			"rm -rf /run/systemd/journal /run/log/journal /var/log/journal")
		if got := n.show("systemd-journald", "ActiveState"); got == "active" {
			t.Fatalf("journald is %s", got)
		}
		n.Run(t, "systemctl", "restart", "kubelet", "orphan-reaper")
		n.pod(t, badSilence)
		kit.Eventually(t, patience, func() string {
			log := n.read(t, logFile)
			return kit.Missing(!kit.Exists(n.dirOf(badSilence)) && strings.Contains(log, badSilence), "it is still there: %s", log)
		})
		n.stays(t, living)
	})
}
