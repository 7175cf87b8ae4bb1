package packages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// These are the pods of the guest's node. Those that the kubelet holds may be removed only after it has reported
// them.
const (
	journalOrphan   = "2badf00d-0000-4000-8000-0000000000f1"
	journalByUnit   = "2badf00d-0000-4000-8000-0000000000f2"
	journalByLogger = "2badf00d-0000-4000-8000-0000000000f3"
	journalByCat    = "2badf00d-0000-4000-8000-0000000000f4"
	journalRotated  = "2badf00d-0000-4000-8000-0000000000f5"
	journalRestart  = "2badf00d-0000-4000-8000-0000000000f6"
	journalConfirm  = "2badf00d-0000-4000-8000-0000000000f7"
	journalHid      = "2badf00d-0000-4000-8000-0000000000f9"
)

var (
	journalForged = []string{journalByUnit, journalByLogger, journalByCat}
	journalHeld   = []string{journalRotated, journalRestart, journalConfirm, journalHid}
)

// killing makes the unit's system call filter kill a process that makes a refused call: the daemon, its journalctl
// and the shell of a reload must make none.
const killing = "etc/systemd/system/orphan-reaper.service.d/kill.conf"

// TestJournald checks the daemon as its package installs it: below a real systemd, with the kubelet's lines from a
// real journald.
func TestJournald(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{killing: "[Service]\nSystemCallErrorNumber=\n"})
		n.install(t)
		n.configure(t, short())
		journald(t, n)
	})
}

func journald(t *testing.T, n *node) {
	t.Helper()
	// The order matters: a kubelet that has reported one orphan has finished a housekeeping run, which releases
	// others that neither runtime nor cgroups have.
	steps(t, n, []step{
		{"ready", journalReady},
		{"forged", journalForgery},
		{"removed", journalRemoved},
		{"records", journalRecords},
		{"rotated", journalRotation},
		{"restarted", journalRestarts},
		{"hidden", journalHidden},
		{"stopped", journalStopped},
	})
}

// journalReady: systemctl waits for READY=1 of a unit with Type=notify, and shows the status. The unit's settings
// keep the daemon in PID 1's mount namespace.
func journalReady(t *testing.T, n *node) {
	if got := n.show("orphan-reaper", "Type") + " " + n.Run(t, "systemctl", "is-active", "orphan-reaper"); got != "notify active" {
		t.Errorf("the unit is %s", got)
	}
	eventually(t, patience, func() string {
		status := n.show("orphan-reaper", "StatusText")
		return missing(strings.HasPrefix(status, "mode enforce: 1 pod directory,"), "the status is %q", status)
	})
	pid := n.show("orphan-reaper", "MainPID")
	own, first := n.Run(t, "readlink", "/proc/"+pid+"/ns/mnt"), n.Run(t, "readlink", "/proc/1/ns/mnt")
	if own != first {
		t.Errorf("the daemon's mount namespace is %s, and PID 1's %s", own, first)
	}
	r := n.scan(t)
	if r.Node.MayEnforce.Value != "yes" || r.Node.MayEnforce.Detail != "the mount namespace of PID 1" {
		t.Errorf("may enforce: %+v", r.Node.MayEnforce)
	}
	for _, words := range []string{"the walker uses openat2", "Landlock confines each batch"} {
		eventually(t, patience, func() string {
			found := n.journal(t, "_SYSTEMD_UNIT=orphan-reaper.service", "_PID="+pid, "--grep", words)
			return missing(len(found) == 1, "%q was logged %d times", words, len(found))
		})
	}
	if kubelet := n.show("kubelet", "MainPID"); strconv.Itoa(r.Node.KubeletPID) != kubelet {
		t.Errorf("the kubelet is PID %s: %+v", kubelet, r.Node)
	}
}

// journalForgery: other processes write the kubelet's own line with its PID. A later report of the kubelet itself
// about another pod arrives, so these lines were read before.
func journalForgery(t *testing.T, n *node) {
	pid := n.show("kubelet", "MainPID")
	line := func(uid string) string {
		return fmt.Sprintf(`E%s %7s kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." `+
			`err="orphaned pod \"%s\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1`,
			time.Now().Format("0102 15:04:05.000000"), pid, uid)
	}
	for _, uid := range slices.Concat(journalForged, journalHeld) {
		n.pod(t, uid)
	}
	n.Run(t, "systemd-run", "--wait", "--collect", "--quiet", "--unit=not-the-kubelet", "echo", line(journalByUnit))
	// Root may send with any PID (SCM_CREDENTIALS in unix(7)): root needs no log to remove a directory.
	n.unit(t, "--uid=nobody", "logger", "--tag", "kubelet", "--id="+pid, line(journalByLogger))
	n.unit(t, "--uid=nobody", "systemd-cat", "--identifier=kubelet", "echo", line(journalByCat))
	for _, uid := range journalForged {
		eventually(t, patience, func() string {
			all := n.journal(t, "--grep", uid)
			return missing(len(all) > 0, "the line of %s has not come", uid)
		})
	}
	n.logs(t, "holds", journalHeld...)
	for _, uid := range journalHeld {
		n.waitRecord(t, uid, policy.KindKept, policy.ReasonKubeletHolds)
	}
	for _, uid := range journalForged {
		n.waitRecord(t, uid, policy.KindKept, policy.ReasonKubeletUnknown)
	}
	// One more look at all pods, after the holds.
	eventually(t, patience, func() string {
		for _, p := range n.scan(t).Pods {
			if slices.Contains(p.Reasons, string(policy.ReasonYoung)) || slices.Contains(p.Reasons, string(policy.ReasonHold)) {
				return p.UID + " waits"
			}
			if slices.Contains(journalForged, p.UID) && !slices.Contains(p.Reasons, string(policy.ReasonKubeletUnknown)) {
				t.Fatalf("%s: %s for %v", p.UID, p.Verdict, p.Reasons)
			}
		}
		return ""
	})
	for _, uid := range slices.Concat(journalForged, journalHeld) {
		n.stays(t, uid)
	}
}

// journalRemoved: pods that the kubelet reports are removed, except a living one. So are those in the forged lines,
// since the kubelet has now finished a housekeeping run and no sensor shows them alive.
func journalRemoved(t *testing.T, n *node) {
	n.pod(t, journalOrphan)
	n.logs(t, "names", living, journalOrphan)
	pid := n.show("kubelet", "MainPID")
	eventually(t, patience, func() string {
		all := n.journal(t, "_SYSTEMD_UNIT=kubelet.service", "_COMM=kubelet", "_PID="+pid, "--grep", "orphaned pod .*"+journalOrphan)
		return missing(len(all) == 1, "%d lines of the kubelet with trusted fields", len(all))
	})
	for _, uid := range append([]string{journalOrphan}, journalForged...) {
		n.goes(t, uid)
	}
	for _, uid := range append([]string{living}, journalHeld...) {
		n.stays(t, uid)
	}
}

// journalRecords: message IDs never change; users search by the fields.
func journalRecords(t *testing.T, n *node) {
	for kind, want := range map[policy.Kind]kit.Event{
		policy.KindParked:  {"MESSAGE_ID": "770d890e15114caab7fc14a24a19f47f", "PRIORITY": "5"},
		policy.KindRemoved: {"MESSAGE_ID": "4ea9a81c415a40cb96e0a1a629658fc7", "PRIORITY": "5"},
	} {
		e := n.waitRecord(t, journalOrphan, kind, "")
		want["SYSLOG_IDENTIFIER"] = "orphan-reaper"
		want["_SYSTEMD_UNIT"] = "orphan-reaper.service"
		want["_PID"] = n.show("orphan-reaper", "MainPID")
		want["ORPHAN_REAPER_BOOT_ID"] = strings.TrimSpace(n.Run(t, "cat", "/proc/sys/kernel/random/boot_id"))
		for field := range want {
			if e.Get(field) != want.Get(field) {
				t.Errorf("%s: %s=%q, want %q", kind, field, e.Get(field), want.Get(field))
			}
		}
		for _, field := range []string{"MESSAGE", "ORPHAN_REAPER_SEQ", "ORPHAN_REAPER_ENTRY"} {
			if e.Get(field) == "" {
				t.Errorf("%s has no %s: %v", kind, field, e)
			}
		}
		if byID := n.journal(t, "MESSAGE_ID="+want.Get("MESSAGE_ID"), "ORPHAN_REAPER_POD_UID="+journalOrphan); len(byID) != 1 {
			t.Errorf("%s: %d records by message ID", kind, len(byID))
		}
	}
	started := n.journal(t, "--identifier=orphan-reaper", "MESSAGE_ID=31ef80b5113940adaecfb7a43fd035cc")
	if len(started) != 1 || !strings.Contains(started[0].Get("MESSAGE"), "following journald") {
		t.Errorf("started: %s", kit.Texts(started))
	}
}

// journalRotation: after new journal files and after a new journald, the kubelet's next line is read.
func journalRotation(t *testing.T, n *node) {
	n.Run(t, "journalctl", "--rotate")
	n.logs(t, "names", journalRotated)
	n.goes(t, journalRotated)
	before := n.show("systemd-journald", "MainPID")
	n.Run(t, "systemctl", "restart", "systemd-journald")
	if after := n.show("systemd-journald", "MainPID"); after == before {
		t.Fatalf("journald did not restart: PID %s", after)
	}
	n.logs(t, "names", journalRestart)
	n.goes(t, journalRestart)
}

// journalRestarts: a pod is parked, and during its confirm time, which a reload sets, the daemon is restarted
// repeatedly. It finishes what it began.
func journalRestarts(t *testing.T, n *node) {
	n.configure(t, "hold: 2s\nconfirm: 10m\n")
	n.logs(t, "names", journalConfirm)
	n.waitRecord(t, journalConfirm, policy.KindParked, "")
	before := n.show("orphan-reaper", "MainPID")
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	if after := n.show("orphan-reaper", "MainPID"); after == before || after == "0" {
		t.Fatalf("the daemon did not restart: PID %s", after)
	}
	eventually(t, patience, func() string {
		return missing(strings.HasSuffix(n.show("orphan-reaper", "StatusText"), "1 in quarantine"), "the status is %q", n.show("orphan-reaper", "StatusText"))
	})
	for _, e := range n.scan(t).Quarantine {
		if e.UID == journalConfirm && e.Phase != string(policy.PhaseParked) {
			t.Errorf("after the restart: %+v", e)
		}
	}
	n.configure(t, short())
	n.goes(t, journalConfirm)
	kinds := map[string]int{}
	for _, e := range n.of(t, journalConfirm) {
		kinds[e.Get("ORPHAN_REAPER_KIND")]++
	}
	if kinds[string(policy.KindParked)] != 1 || kinds[string(policy.KindRemoved)] != 1 {
		t.Errorf("records: %v", kinds)
	}
}

// journalHidden: if a filter hides Landlock and openat2, the daemon logs that once and still removes a pod.
func journalHidden(t *testing.T, n *node) {
	lay(t, n.Path("/etc/systemd/system/orphan-reaper.service.d/zz-hidden.conf"),
		"[Service]\nSystemCallFilter=~landlock_create_ruleset openat2\nSystemCallErrorNumber=ENOSYS\n")
	n.Run(t, "systemctl", "daemon-reload")
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	for _, words := range []string{"the walker cannot use openat2, it compares mount IDs", "Landlock cannot be used, no batch is confined"} {
		eventually(t, patience, func() string {
			found := n.journal(t, "_SYSTEMD_UNIT=orphan-reaper.service", "PRIORITY=4", "--grep", words)
			return missing(len(found) == 1, "%q was logged %d times", words, len(found))
		})
	}
	n.logs(t, "names", journalHid)
	n.goes(t, journalHid)
}

// journalStopped: systemd reports no fault when it ends.
func journalStopped(t *testing.T, n *node) {
	n.Run(t, "systemctl", "stop", "orphan-reaper")
	got := n.show("orphan-reaper", "ActiveState") + " " + n.show("orphan-reaper", "Result") + " " + n.show("orphan-reaper", "NRestarts")
	if got != "inactive success 0" {
		t.Errorf("the unit is %s", got)
	}
	if kinds := n.journal(t, "MESSAGE_ID=55e9f916081a43809984fd3c31b35ee1"); len(kinds) != 3 {
		t.Errorf("stopped: %s", kit.Texts(kinds))
	}
}
