package packages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const (
	unitObserved = "2badf00d-0000-4000-8000-0000000000e1"
	unitRotated  = "2badf00d-0000-4000-8000-0000000000e2"
	unitRestart  = "2badf00d-0000-4000-8000-0000000000e3"
	unitKilled   = "2badf00d-0000-4000-8000-0000000000e4"
	unitHidden   = "2badf00d-0000-4000-8000-0000000000e5"
	unitMounted  = "2badf00d-0000-4000-8000-0000000000e6"
	unitAlone    = "2badf00d-0000-4000-8000-0000000000e7"
	unitLate     = "2badf00d-0000-4000-8000-0000000000e8"
)

// short has the times of quick as a configuration, which a reload can change.
const short = "mode: enforce\nhold: 2s\nconfirm: 5s\n"

// hasty restarts it at once, every time.
const hasty = "RestartSec=100ms\n"

// TestUnit shows how systemd runs the service: reload, journald's own restarts, hang, kill, a failing start, and
// confinements that would harm.
func TestUnit(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{dropIn: ""})
		n.install(t)
		n.configure(t, short)
		steps(t, n, []step{
			{"reload", unitReload},
			{"broken", unitBroken},
			{"journald", unitJournald},
			{"killed", unitKill},
			{"watchdog", unitWatchdog},
			{"hidden", unitWithout},
			{"private", unitPrivate},
			{"patient", unitPatient},
			{"stopped", unitStopped},
		})
	})
}

// unitReload: changed settings are in force without a restart.
func unitReload(t *testing.T, n *node) {
	n.configure(t, strings.Replace(short, "enforce", "observe", 1))
	n.pod(t, unitObserved)
	n.observed(t, unitObserved)
	n.configure(t, short)
	n.goes(t, unitObserved)
}

// observed waits until the daemon's metrics show that it would move the pod, and checks that it has not.
func (n *node) observed(t *testing.T, uid string) {
	t.Helper()
	kit.Eventually(t, patience, func() string {
		page, err := n.exporter()
		return kit.Missing(err == nil && strings.Contains(page, "\norphan_reaper_pods{state=\"removable\"} 1\n"),
			"the exporter returns: %v %s", err, lines(page, "orphan_reaper_pods"))
	})
	n.stays(t, uid)
}

// unitBroken: a wrong configuration is refused with a message, and the old one stays in force.
func unitBroken(t *testing.T, n *node) {
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), "hold: soon\n")
	if out, err := n.Try("systemctl", "reload", "orphan-reaper"); err == nil {
		t.Errorf("a reload accepts the file: %s", out)
	}
	kit.Eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "hold: .*soon")
		return kit.Missing(len(all) > 0, "the log has no reason: %s", kit.Texts(all))
	})
	// A reload by signal is refused, too.
	n.Run(t, "kill", "-HUP", pid)
	kit.Eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "the configuration is wrong")
		return kit.Missing(len(all) == 1 && strings.Contains(fmt.Sprint(all[0]), "soon"), "the log has no error: %s", kit.Texts(all))
	})
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	n.configure(t, short)
}

// unitJournald: after new journal files and after a new journald, the kubelet's next line is read.
func unitJournald(t *testing.T, n *node) {
	n.Run(t, "journalctl", "--rotate")
	n.pod(t, unitRotated)
	n.goes(t, unitRotated)
	n.Run(t, "systemctl", "restart", "systemd-journald")
	n.pod(t, unitRestart)
	n.goes(t, unitRestart)
}

// unitKill: a pod is in quarantine when the daemon is killed, as when a log line fills its memory. The next one finishes it.
func unitKill(t *testing.T, n *node) {
	n.override(t, hasty)
	n.pod(t, unitKilled)
	n.record(t, unitKilled, "quarantined")
	pid := n.show("orphan-reaper", "MainPID")
	n.Run(t, "kill", "-KILL", pid)
	n.restarted(t, pid)
	n.goes(t, unitKilled)
}

// unitWatchdog: a daemon that hangs is killed and started again.
func unitWatchdog(t *testing.T, n *node) {
	n.override(t, "WatchdogSec=5s\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	pid := n.show("orphan-reaper", "MainPID")
	n.Run(t, "kill", "-STOP", pid)
	n.restarted(t, pid)
	if all := n.journal(t, "--unit=orphan-reaper", "_PID=1", "--grep", "Watchdog timeout"); len(all) == 0 {
		t.Error("the restart was not the watchdog's")
	}
}

// unitWithout: if a filter hides Landlock and openat2, as on an old kernel, a pod is removed all the same.
func unitWithout(t *testing.T, n *node) {
	n.override(t, "SystemCallFilter=~landlock_create_ruleset openat2\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	for _, words := range []string{"mount IDs are compared instead", "the kernel has none, or a filter of system calls hides it"} {
		kit.Eventually(t, patience, func() string {
			found := n.journal(t, "--unit=orphan-reaper", "--grep", words)
			return kit.Missing(len(found) == 1, "%q was logged %d times", words, len(found))
		})
	}
	n.pod(t, unitHidden)
	n.goes(t, unitHidden)
}

// unitPrivate: a daemon in a mount namespace of its own moves nothing, because it cannot see the node's mounts. In one that
// only gets the node's mounts, it sees them.
func unitPrivate(t *testing.T, n *node) {
	n.override(t, "MountFlags=private\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	n.pod(t, unitAlone)
	kit.Eventually(t, patience, func() string {
		all := n.journal(t, "--unit=orphan-reaper", "--grep", "reason=not-visible")
		return kit.Missing(len(all) > 0, "the log does not name the reason: %s", kit.Texts(n.journal(t, "--unit=orphan-reaper")))
	})
	n.waitReason(t, unitAlone, "hold") // in the node's own namespace only the hold is missing
	n.stays(t, unitAlone)

	n.override(t, "PrivateTmp=yes\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	n.goes(t, unitAlone)
	n.pod(t, unitMounted)
	on := "/var/lib/kubelet/pods/" + unitMounted + "/volumes/" + nfs + "/vol"
	n.Run(t, "mount", "--bind", "/srv/behind", on)
	n.waitReason(t, unitMounted, "mounted")
	n.stays(t, unitMounted)
	if got := n.read(t, on+"/precious"); got != users {
		t.Errorf("the file on the mount is %q", got)
	}
	n.Run(t, "umount", on)
	n.Run(t, "systemctl", "restart", "orphan-reaper") // a kept pod is scanned every five minutes
	n.goes(t, unitMounted)
}

// unitPatient: a daemon that cannot start is started again for ever.
func unitPatient(t *testing.T, n *node) {
	n.override(t, hasty)
	lay(t, n.Path(config), "hold: soon\n")
	n.Run(t, "kill", "-KILL", n.show("orphan-reaper", "MainPID"))
	began := n.restarts(t)
	kit.Eventually(t, patience, func() string {
		// More often than systemd's own limit of 5 starts in 10 s.
		return kit.Missing(n.restarts(t) > began+10, "%d restarts, %s", n.restarts(t)-began, n.show("orphan-reaper", "Result"))
	})
	lay(t, n.Path(config), short)
	kit.Eventually(t, patience, func() string {
		got := n.show("orphan-reaper", "ActiveState")
		return kit.Missing(got == "active", "with a good configuration it is %s", got)
	})
	n.pod(t, unitLate)
	n.goes(t, unitLate)
}

func (n *node) restarts(t *testing.T) (count int) {
	t.Helper()
	if _, err := fmt.Sscan(n.show("orphan-reaper", "NRestarts"), &count); err != nil {
		t.Fatal(err)
	}
	return count
}

// unitStopped: systemd reports no fault when it ends.
func unitStopped(t *testing.T, n *node) {
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	n.Run(t, "systemctl", "stop", "orphan-reaper")
	if got := n.show("orphan-reaper", "ActiveState") + " " + n.show("orphan-reaper", "Result"); got != "inactive success" {
		t.Errorf("the unit is %s", got)
	}
	n.stays(t, living)
}
