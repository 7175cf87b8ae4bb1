package packages

import (
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	upgradeBefore = "2badf00d-0000-4000-8000-0000000000c1"
	upgradeAfter  = "2badf00d-0000-4000-8000-0000000000c2"
)

// These are the two releases, in apt's and dpkg's notation. Files that the administrator has edited are kept, as in
// unattended upgrades.
const (
	toNext = "DEBIAN_FRONTEND=noninteractive apt-get install -y -o Dpkg::Options::=--force-confold ./next/orphan-reaper_*_amd64.deb"
	back   = "dpkg --install --force-confold --force-downgrade ./orphan-reaper_*_amd64.deb"
)

// TestUpgrade checks an upgrade and a downgrade, both of which keep the administrator's choices.
func TestUpgrade(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{dropIn: quick})
		n.install(t)
		steps(t, n, []step{
			{"wrong", upgradeWrong},
			{"edited", upgradeEdited},
			{"back", upgradeBack},
			{"disabled", upgradeDisabled},
			{"masked", upgradeMasked},
		})
	})
}

// upgradeWrong: with an invalid configuration the old daemon keeps running, and the upgrade does not fail.
func upgradeWrong(t *testing.T, n *node) {
	good, pid := n.read(t, config), n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), good+"\nretention: soon\n")
	out := n.sh(t, "("+toNext+") 2>&1")
	for _, word := range []string{config + ":", "retention: ", "the old daemon goes on running", "systemctl restart orphan-reaper"} {
		if !strings.Contains(out, word) {
			t.Errorf("the upgrade does not print %q: %s", word, out)
		}
	}
	if got := n.show("orphan-reaper", "MainPID"); got != pid {
		t.Errorf("PID %s, want %s", got, pid)
	}
	if strings.Contains(out, "A daemon that starts now") {
		t.Errorf("an upgrade prints the text of a first installation: %s", out)
	}
	lay(t, n.Path(config), good)
	n.sh(t, back)
	n.restarted(t, pid)
}

// upgradeEdited: the edited configuration is kept, the new one is written beside it, and the new daemon
// continues with the old one's state.
func upgradeEdited(t *testing.T, n *node) {
	edited := n.read(t, config) + "\nretention: 7h\n"
	lay(t, n.Path(config), edited)
	n.pod(t, upgradeBefore)
	n.logs(t, "names", upgradeBefore)
	n.goes(t, upgradeBefore)
	pid := n.show("orphan-reaper", "MainPID")
	n.sh(t, toNext)
	n.restarted(t, pid)
	if got := n.read(t, config); got != edited {
		t.Errorf("the edited configuration is now\n%s", got)
	}
	if dist := n.read(t, config+".dpkg-dist"); !strings.Contains(dist, "A later release") {
		t.Errorf("the new configuration is\n%s", dist)
	}
	if out := n.Run(t, "orphan-reaper", "config", "print"); !strings.Contains(out, "retention: 7h") {
		t.Errorf("the edited configuration is not in force: %s", out)
	}
	if got := n.state(); !strings.HasPrefix(got, "enabled active") {
		t.Errorf("after the upgrade the unit is %s", got)
	}
	if n.of(t, upgradeBefore) == nil {
		t.Error("the journal lacks the record of the pod removed before")
	}
}

// upgradeBack installs the older release over the newer one.
func upgradeBack(t *testing.T, n *node) {
	pid := n.show("orphan-reaper", "MainPID")
	n.sh(t, back)
	n.restarted(t, pid)
	n.pod(t, upgradeAfter)
	n.logs(t, "names", upgradeAfter)
	n.goes(t, upgradeAfter)
	n.waitRecord(t, upgradeBefore, policy.KindRemoved, "")
}

// upgradeDisabled: a disabled unit stays disabled.
func upgradeDisabled(t *testing.T, n *node) {
	n.Run(t, "systemctl", "disable", "--now", "orphan-reaper")
	n.sh(t, toNext)
	if got := n.state(); !strings.HasPrefix(got, "disabled inactive") {
		t.Errorf("after the upgrade the unit is %s", got)
	}
	n.sh(t, "apt-get remove -y orphan-reaper\n"+toNext)
	if got := n.state(); !strings.HasPrefix(got, "disabled inactive") {
		t.Errorf("removed and installed again the unit is %s", got)
	}
	n.Run(t, "systemctl", "enable", "--now", "orphan-reaper")
	n.sh(t, back)
	if got := n.state(); !strings.HasPrefix(got, "enabled active") {
		t.Errorf("enabled again the unit is %s", got)
	}
}

// upgradeMasked: a masked unit stays masked.
func upgradeMasked(t *testing.T, n *node) {
	n.Run(t, "systemctl", "mask", "--now", "orphan-reaper")
	n.sh(t, toNext)
	if got := n.state(); !strings.HasPrefix(got, "masked inactive") {
		t.Errorf("after the upgrade the unit is %s", got)
	}
}

func (n *node) read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(n.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
