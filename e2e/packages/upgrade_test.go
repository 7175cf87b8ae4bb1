package packages

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const (
	upgradeData  = "2badf00d-0000-4000-8000-0000000000c1"
	upgradeAfter = "2badf00d-0000-4000-8000-0000000000c2"
)

// These are the two releases, in apt's and dpkg's notation. Files that the administrator has edited are kept, as in
// unattended upgrades.
const (
	toNext = "DEBIAN_FRONTEND=noninteractive apt-get install -y -o Dpkg::Options::=--force-confold ./next/orphan-reaper_*_amd64.deb"
	back   = "dpkg --install --force-confold --force-downgrade ./orphan-reaper_*_amd64.deb"
)

// TestUpgrade shows an upgrade and a downgrade: both keep the administrator's choices and the state.
func TestUpgrade(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, nil)
		n.install(t)
		steps(t, n, []step{
			{"wrong", upgradeWrong},
			{"state", upgradeState},
			{"back", upgradeBack},
			{"disabled", upgradeDisabled},
			{"masked", upgradeMasked},
		})
	})
}

// upgradeWrong: with a wrong configuration the old daemon keeps running, and the upgrade does not fail.
func upgradeWrong(t *testing.T, n *node) {
	good, pid := n.read(t, config), n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), good+"\nretention: soon\n")
	out := n.sh(t, "("+toNext+") 2>&1")
	for _, word := range []string{config + ":", "retention: ", "the old daemon keeps running", "systemctl restart orphan-reaper"} {
		if !strings.Contains(out, word) {
			t.Errorf("the upgrade does not print %q: %s", word, out)
		}
	}
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	lay(t, n.Path(config), good)
	n.sh(t, back)
	n.restarted(t, pid)
}

// upgradeState: a pod is in quarantine and not confirmed when the daemon is replaced. The new one finishes it. The edited
// configuration is kept, and the new one is written beside it.
func upgradeState(t *testing.T, n *node) {
	edited := n.read(t, config) + "\nmax_per_scan: 7\n"
	lay(t, n.Path(config), edited)
	n.pod(t, upgradeData, "precious")
	n.record(t, upgradeData, "quarantined")
	pid := n.show("orphan-reaper", "MainPID")
	n.sh(t, toNext)
	n.restarted(t, pid)
	n.record(t, upgradeData, "cleaned")
	n.holdsData(t)
	moved := 0
	for _, e := range n.of(t, upgradeData) {
		if e.Is("quarantined", "") {
			moved++
		}
	}
	if moved != 1 {
		t.Errorf("it was moved %d times: %s", moved, kit.Texts(n.of(t, upgradeData)))
	}
	if got := n.read(t, config); got != edited {
		t.Errorf("the edited configuration is now\n%s", got)
	}
	if dist := n.read(t, config+".dpkg-dist"); !strings.Contains(dist, "A later release") {
		t.Errorf("the new configuration is\n%s", dist)
	}
	if got := n.state(); got != "enabled active" {
		t.Errorf("after the upgrade the unit is %s", got)
	}
}

// upgradeBack installs the older release over the newer one. The restore of what the other one moved is the last step of
// the way back.
func upgradeBack(t *testing.T, n *node) {
	pid := n.show("orphan-reaper", "MainPID")
	n.sh(t, back)
	n.restarted(t, pid)
	n.pod(t, upgradeAfter)
	n.goes(t, upgradeAfter)
	n.sh(t, "orphan-reaper quarantine restore "+upgradeData)
	if got := n.read(t, "/var/lib/kubelet/pods/"+upgradeData+"/volumes/"+nfs+"/vol/precious"); got != users {
		t.Errorf("the user's file is %q", got)
	}
	n.waitReason(t, upgradeData, "restored")
}

// upgradeDisabled: a disabled unit stays disabled.
func upgradeDisabled(t *testing.T, n *node) {
	n.Run(t, "systemctl", "disable", "--now", "orphan-reaper")
	n.sh(t, toNext)
	if got := n.state(); got != "disabled inactive" {
		t.Errorf("after the upgrade the unit is %s", got)
	}
	n.sh(t, "apt-get remove -y orphan-reaper\n"+toNext)
	if got := n.state(); got != "disabled inactive" {
		t.Errorf("removed and installed again the unit is %s", got)
	}
	n.Run(t, "systemctl", "enable", "--now", "orphan-reaper")
	n.sh(t, back)
	if got := n.state(); got != "enabled active" {
		t.Errorf("enabled again the unit is %s", got)
	}
}

// upgradeMasked: a masked unit stays masked.
func upgradeMasked(t *testing.T, n *node) {
	n.Run(t, "systemctl", "mask", "--now", "orphan-reaper")
	n.sh(t, toNext)
	if got := n.state(); got != "masked inactive" {
		t.Errorf("after the upgrade the unit is %s", got)
	}
}
