package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	unitBefore = "2badf00d-0000-4000-8000-0000000000e1"
	unitAfter  = "2badf00d-0000-4000-8000-0000000000e2"
	unitLabel  = "2badf00d-0000-4000-8000-0000000000e4"
	unitHidden = "2badf00d-0000-4000-8000-0000000000e5"
	unitAlone  = "2badf00d-0000-4000-8000-0000000000e7"
	unitSeen   = "2badf00d-0000-4000-8000-0000000000e6"
	unitMended = "2badf00d-0000-4000-8000-0000000000e3"
)

// TestUnit checks how systemd runs the service: start, stop, reload, hang, kill, and a failing start.
func TestUnit(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, nil)
		n.install(t)
		n.configure(t, short())
		steps(t, n, []step{
			{"hardened", unitHardened},
			{"reload", unitReload},
			{"broken", unitBroken},
			{"labels", unitLabels},
			{"private", unitPrivate},
			{"slave", unitSlave},
			{"watchdog", unitWatchdog},
			{"killed", unitKilled},
			{"patient", unitPatient},
		})
	})
}

// unitHardened: systemd finds no fault in the unit and has logged no warning about it since its installation; the
// security rating is printed.
func unitHardened(t *testing.T, n *node) {
	if out, err := n.Try("bash", "-c", "systemd-analyze verify --man=no /usr/lib/systemd/system/orphan-reaper.service 2>&1"); out != "" || err != nil {
		t.Errorf("systemd-analyze verify: %v %s", err, out)
	}
	for _, e := range n.journal(t, "_PID=1", "--priority=warning") {
		if strings.Contains(e.Get("MESSAGE"), "orphan-reaper") {
			t.Errorf("systemd warns: %s", e.Get("MESSAGE"))
		}
	}
	// systemd must warn of an unknown key; otherwise the check above proves nothing.
	n.override(t, "Nonsense=yes\n")
	n.Run(t, "systemctl", "show", "orphan-reaper")
	if all := n.journal(t, "_PID=1", "--priority=warning", "--grep", "Nonsense"); len(all) == 0 {
		t.Error("systemd does not warn of an unknown key")
	}
	n.override(t, "")
	security := n.Run(t, "systemd-analyze", "security", "--no-pager", "orphan-reaper.service")
	show("%s: systemd-analyze security: %s", n.release, strings.TrimSpace(grep(security, "Overall exposure level")))
}

// unitReload: changed settings are applied without a restart.
func unitReload(t *testing.T, n *node) {
	n.configure(t, short("mode: observe\n"))
	n.pod(t, unitBefore)
	n.logs(t, "names", unitBefore)
	n.waitRecord(t, unitBefore, policy.KindKept, policy.ReasonObserve)
	n.stays(t, unitBefore)
	n.configure(t, short())
	n.logs(t, "names", unitBefore)
	n.goes(t, unitBefore)
}

// unitBroken: an invalid configuration is refused with a message, and the old one stays in force.
func unitBroken(t *testing.T, n *node) {
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), "hold: soon\n")
	if out, err := n.Try("orphan-reaper", "config", "check"); err == nil {
		t.Errorf("config check accepts the file: %s", out)
	}
	if out, err := n.Try("systemctl", "reload", "orphan-reaper"); err == nil {
		t.Errorf("a reload accepts the file: %s", out)
	}
	eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "hold: .*soon")
		return missing(len(all) > 0, "the log has no reason: %s", kit.Texts(all))
	})
	// A reload by signal is refused, too.
	n.Run(t, "kill", "-HUP", pid)
	eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "the configuration is wrong; the old one stays")
		return missing(len(all) == 1 && strings.Contains(fmt.Sprint(all[0]), "soon"), "the log has no error: %s", kit.Texts(all))
	})
	n.pod(t, unitAfter)
	n.logs(t, "names", unitAfter)
	n.goes(t, unitAfter)
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	n.configure(t, short())
}

// unitLabels: a file keeps its SELinux label in quarantine and after the restore. The attribute exists also without
// SELinux (selinux(8), xattr(7)).
func unitLabels(t *testing.T, n *node) {
	const name, label = "security.selinux", "system_u:object_r:container_file_t:s0:c1,c2\x00"
	n.pod(t, unitLabel)
	inside := []string{"", "volumes/" + nfs + "/vol", "volumes/" + nfs + "/vol/precious"}
	lay(t, filepath.Join(n.dirOf(unitLabel), inside[2]), users)
	for _, path := range inside {
		if err := unix.Lsetxattr(filepath.Join(n.dirOf(unitLabel), path), name, []byte(label), 0); err != nil {
			t.Fatal(err)
		}
	}
	labelled := func(dir string) {
		t.Helper()
		for _, path := range inside {
			got := make([]byte, 100)
			size, err := unix.Lgetxattr(filepath.Join(dir, path), name, got)
			if err != nil || string(got[:max(size, 0)]) != label {
				t.Errorf("%s/%s: label %q, %v", dir, path, got[:max(size, 0)], err)
			}
		}
	}
	n.logs(t, "names", unitLabel)
	n.waitRecord(t, unitLabel, policy.KindParked, "")
	parked, err := filepath.Glob(n.Path("/var/lib/kubelet/orphan-reaper/*" + unitLabel + "*/volumes"))
	if err != nil || len(parked) != 1 {
		t.Fatalf("in quarantine: %v %v", parked, err)
	}
	labelled(filepath.Dir(parked[0]))
	n.Run(t, "orphan-reaper", "quarantine", "restore", unitLabel)
	labelled(n.dirOf(unitLabel))
}

// unitWatchdog: a daemon that hangs is killed and restarted.
func unitWatchdog(t *testing.T, n *node) {
	n.override(t, "WatchdogSec=5s\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	pid := n.show("orphan-reaper", "MainPID")
	n.Run(t, "kill", "-STOP", pid)
	n.restarted(t, pid)
	if all := n.journal(t, "--unit=orphan-reaper", "_PID=1", "--grep", "Watchdog timeout"); len(all) == 0 {
		t.Error("the restart was not the watchdog's")
	}
	n.override(t, hasty)
}

// unitKilled: the daemon is killed repeatedly in the middle of a batch. In the end each directory is in one place,
// and the ledger agrees.
func unitKilled(t *testing.T, n *node) {
	var uids []string
	for i := range 400 {
		uid := fmt.Sprintf("2badf00d-0000-4000-8001-%012d", i)
		uids = append(uids, uid)
		n.pod(t, uid)
		if i%2 == 0 {
			lay(t, filepath.Join(n.dirOf(uid), "volumes", nfs, "vol", "precious"), uid)
		}
	}
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	n.logs(t, "names", uids[0])
	quarantine := n.Path("/var/lib/kubelet/orphan-reaper")
	middle := 0
	for round, seen := 0, 0; round < 3; round++ {
		pid := n.show("orphan-reaper", "MainPID")
		// Polls without a pause: a batch takes milliseconds.
		for end := time.Now().Add(patience); ; {
			in, err := os.ReadDir(quarantine)
			if err == nil && len(in) > seen+1 || time.Now().After(end) {
				n.Run(t, "kill", "-KILL", pid)
				break
			}
		}
		n.restarted(t, pid)
		in, err := os.ReadDir(quarantine)
		if err != nil {
			t.Fatal(err)
		}
		if left := n.onDisk(t, uids); left > 0 && left < len(uids) {
			middle++
		}
		seen = len(in)
		n.logs(t, "names", uids...)
	}
	if middle == 0 {
		t.Error("no kill came in the middle of a batch")
	}
	eventually(t, 2*patience, func() string {
		left := n.onDisk(t, uids)
		return missing(left == 0, "%d of %d pods are still there: %s", left, len(uids), n.show("orphan-reaper", "StatusText"))
	})
	agree := func() string {
		listed := map[string]bool{}
		for _, e := range n.scan(t).Quarantine {
			listed[e.UID] = true
		}
		for i, uid := range uids {
			found, err := filepath.Glob(filepath.Join(quarantine, "*"+uid+"*", "volumes", nfs, "vol", "precious"))
			if err != nil {
				t.Fatal(err)
			}
			if data := i%2 == 0; data != listed[uid] || data != (len(found) == 1) {
				return fmt.Sprintf("%s: data %t, listed %t, on disk %v", uid, data, listed[uid], found)
			}
		}
		return ""
	}
	eventually(t, 2*patience, agree)
	n.stays(t, living)
}

// unitPatient: a daemon that cannot start is retried forever.
func unitPatient(t *testing.T, n *node) {
	n.pod(t, unitMended)
	lay(t, n.Path(config), "hold: soon\n")
	n.Run(t, "kill", "-KILL", n.show("orphan-reaper", "MainPID"))
	began := n.restarts(t)
	eventually(t, patience, func() string {
		// More often than systemd's own limit of 5 starts in 10 s.
		return missing(n.restarts(t) > began+10, "%d restarts, %s", n.restarts(t)-began, n.show("orphan-reaper", "Result"))
	})
	lay(t, n.Path(config), short())
	eventually(t, patience, func() string {
		got := n.show("orphan-reaper", "ActiveState")
		return missing(got == "active", "with a good configuration it is %s", got)
	})
	n.logs(t, "names", unitMended)
	n.goes(t, unitMended)
}

// hasty restarts it at once, every time.
const hasty = "RestartSec=100ms\n"

// override changes the unit like systemctl edit.
func (n *node) override(t *testing.T, settings string) {
	t.Helper()
	lay(t, n.Path("/etc/systemd/system/orphan-reaper.service.d/override.conf"), "[Service]\n"+settings)
	n.Run(t, "systemctl", "daemon-reload")
}

// restarted waits until the daemon runs as another process.
func (n *node) restarted(t *testing.T, pid string) {
	t.Helper()
	eventually(t, patience, func() string {
		now, state := n.show("orphan-reaper", "MainPID"), n.show("orphan-reaper", "ActiveState")
		return missing(now != pid && now != "0" && state == "active", "the unit is %s, PID %s, was %s", state, now, pid)
	})
}

func (n *node) restarts(t *testing.T) (count int) {
	t.Helper()
	if _, err := fmt.Sscan(n.show("orphan-reaper", "NRestarts"), &count); err != nil {
		t.Fatal(err)
	}
	return count
}

// onDisk counts the pods in the pods directory.
func (n *node) onDisk(t *testing.T, uids []string) (count int) {
	t.Helper()
	for _, uid := range uids {
		if exists(n.dirOf(uid)) {
			count++
		}
	}
	return count
}
