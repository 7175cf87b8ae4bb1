package packages

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	badDisk     = "2badf00d-0000-4000-8000-000000000091"
	badBus      = "2badf00d-0000-4000-8000-000000000092"
	badEtc      = "2badf00d-0000-4000-8000-000000000093"
	badTextfile = "2badf00d-0000-4000-8000-000000000094"
	badMetrics  = "2badf00d-0000-4000-8000-000000000097"
	badJournal  = "2badf00d-0000-4000-8000-000000000095"
	badSilence  = "2badf00d-0000-4000-8000-000000000096"
)

// TestBadDays makes one thing after the other fail on one node. An orphan is removed each time all the same.
func TestBadDays(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, nil)
		n.install(t)
		n.configure(t, short())
		steps(t, n, []step{
			{"disk", badDayDisk},
			{"bus", badDayBus},
			{"textfile", badDayTextfile},
			{"journal", badDayJournal},
			{"etc", badDayEtc},
		})
	})
}

// badDayDisk: the kubelet's root is a disk of its own that is mounted after the daemon's start, and can be unmounted
// while the daemon runs.
func badDayDisk(t *testing.T, n *node) {
	const root = "/var/lib/kubelet"
	n.Run(t, "systemctl", "stop", "kubelet")
	n.sh(t, "rm -r "+root+"; mkdir "+root+"; systemctl restart orphan-reaper")
	pid := n.show("orphan-reaper", "MainPID")
	n.Run(t, "mount", "-t", "tmpfs", "tmpfs", root)
	n.pod(t, living)
	n.pod(t, badDisk)
	n.Run(t, "systemctl", "start", "kubelet")
	n.logs(t, "names", living, badDisk)
	n.goes(t, badDisk)
	n.stays(t, living)
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	// As between two looks: no handle keeps the disk busy.
	eventually(t, patience, func() string {
		_, err := n.Try("umount", root)
		return missing(err == nil, "the disk cannot be unmounted: %v", err)
	})
	n.pod(t, living)
	n.Run(t, "systemctl", "restart", "kubelet")
}

// again restarts the daemon and waits until it removes one orphan.
func (n *node) again(t *testing.T, uid string) {
	t.Helper()
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	n.pod(t, uid)
	n.logs(t, "names", uid)
	n.goes(t, uid)
	n.stays(t, living)
}

// badDayBus: the daemon needs no D-Bus.
func badDayBus(t *testing.T, n *node) {
	n.sh(t, "systemctl mask --now dbus.socket dbus.service")
	if got := n.show("dbus", "ActiveState"); got == "active" {
		t.Fatalf("D-Bus is %s", got)
	}
	n.again(t, badBus)
}

// badDayTextfile: without the node exporter's directory there are no metrics, and one message about that.
func badDayTextfile(t *testing.T, n *node) {
	n.sh(t, "systemctl stop prometheus-node-exporter; mv /var/lib/prometheus /var/lib/elsewhere")
	n.again(t, badTextfile)
	if exists(n.Path("/var/lib/prometheus")) {
		t.Error("the daemon made another package's directory")
	}
	if all := n.journal(t, "--unit=orphan-reaper", "_PID="+n.show("orphan-reaper", "MainPID"), "--grep", "textfile|metrics"); len(all) > 1 {
		t.Errorf("it is logged repeatedly: %s", kit.Texts(all))
	}
	n.sh(t, "mv /var/lib/elsewhere /var/lib/prometheus; systemctl start prometheus-node-exporter")
	n.pod(t, badMetrics)
	n.logs(t, "names", badMetrics)
	n.goes(t, badMetrics)
	eventually(t, patience, func() string {
		page, err := n.exporter()
		return missing(err == nil && strings.Contains(page, "\norphan_reaper_enforcing 1\n"), "the directory is there, and the exporter says: %v %s", err, grep(page, "orphan_reaper"))
	})
}

// badDayJournal: the journal is lost with every boot, and the ledger still has the pod's history.
func badDayJournal(t *testing.T, n *node) {
	lay(t, n.Path("/etc/systemd/journald.conf.d/volatile.conf"), "[Journal]\nStorage=volatile\n")
	n.Run(t, "systemctl", "restart", "systemd-journald")
	n.pod(t, badJournal)
	lay(t, filepath.Join(n.dirOf(badJournal), "volumes", nfs, "vol", "precious"), users)
	n.logs(t, "names", badJournal)
	n.waitRecord(t, badJournal, policy.KindParked, "")
	n.holdsData(t)
	n.sh(t, "systemctl stop systemd-journald; rm -rf /run/log/journal/* /var/log/journal; systemctl start systemd-journald")
	// A journald that is stopped and not restarted leaves its clients without stderr.
	n.Run(t, "systemctl", "restart", "kubelet", "orphan-reaper")
	if left := n.of(t, badJournal); len(left) > 0 {
		t.Fatalf("the journal still has the records: %s", kit.Texts(left))
	}
	if out := n.Run(t, "orphan-reaper", "quarantine", "list"); !strings.Contains(out, badJournal) {
		t.Errorf("quarantine list: %s", out)
	}
	for uid, word := range map[string]string{badJournal: "parked", badTextfile: "removed"} {
		out, _ := n.Try("orphan-reaper", "explain", uid) // its exit code may ask for the operator
		if !strings.Contains(out, word) {
			t.Errorf("explain %s: %s", uid, out)
		}
	}
}

// badDayEtc: nothing is written below /etc.
func badDayEtc(t *testing.T, n *node) {
	n.sh(t, "mount --bind /etc /etc; mount -o remount,bind,ro /etc; ! touch /etc/x")
	n.again(t, badEtc)
}

// TestWithoutJournald checks that without journald the kubelet's log is read from a file, and that the daemon's log
// goes where systemd redirects it.
func TestWithoutJournald(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		const logFile = "/var/log/orphan-reaper.log"
		n := newNode(t, release, map[string]string{
			dropIn: quick + "StandardError=append:" + logFile + "\n",
			"etc/systemd/system/kubelet.service.d/file.conf": "[Service]\nStandardError=append:/var/log/messages\n",
		})
		n.install(t)
		// Its sockets, which a boot without it would not have created, remain in the file system.
		n.sh(t, "systemctl mask --runtime --now systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald.service; rm -r /run/systemd/journal")
		if got := n.show("systemd-journald", "ActiveState"); got == "active" {
			t.Fatalf("journald is %s", got)
		}
		n.Run(t, "systemctl", "restart", "kubelet", "orphan-reaper")
		n.pod(t, badSilence)
		eventually(t, patience, func() string {
			n.logs(t, "names", living, badSilence) // repeatedly, like a kubelet
			return missing(!exists(n.dirOf(badSilence)) && strings.Contains(n.read(t, logFile), badSilence), "it is still there: %s\nThe kubelet logged:\n%s", n.read(t, logFile), n.read(t, "/var/log/messages"))
		})
		if !exists(n.dirOf(living)) {
			t.Error("the living pod was removed")
		}
	})
}
