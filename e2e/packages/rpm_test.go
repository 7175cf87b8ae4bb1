package packages

import (
	"strings"
	"testing"
)

const rpmOrphan = "2badf00d-0000-4000-8000-0000000000b1"

// asRPM has rpm accept a Debian: before Debian 13 it refuses to install anything and keeps its database in the
// home directory, and it does not see dpkg's packages.
const asRPM = `force=$(command rpm --force-debian --version >/dev/null 2>&1 && echo --force-debian || true)
rpm() { command rpm $force --nodeps --dbpath /var/lib/rpm "$@"; }
`

// TestRPM is the life of the other package, with a real rpm. Its scriptlets do what the macros of rpm-based
// distributions do; presets decide whether the service starts.
func TestRPM(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{
			dropIn: quick,
			// As Fedora and RHEL have it.
			"etc/systemd/system-preset/99-default-disable.preset": "disable orphan-reaper.service\n",
		})
		steps(t, n, []step{
			{"installed", rpmInstalled},
			{"upgraded", rpmUpgraded},
			{"erased", rpmErased},
		})
	})
}

func rpmInstalled(t *testing.T, n *node) {
	if said := n.sh(t, asRPM+"rpm --install ./orphan-reaper-*.x86_64.rpm 2>&1"); !strings.Contains(said, "A daemon that starts now enforces: ") ||
		!strings.Contains(said, "systemctl enable --now orphan-reaper") {
		t.Errorf("the installation printed %s", said)
	}
	if got := n.state(); got != "disabled inactive notify" {
		t.Errorf("by its preset it is disabled; it is %s", got)
	}
	if out := n.sh(t, asRPM+"rpm --verify orphan-reaper"); out != "" {
		t.Errorf("rpm --verify: %s", out)
	}
	n.sh(t, "systemctl enable --now orphan-reaper")
	n.pod(t, rpmOrphan)
	n.says(t, "names", rpmOrphan)
	n.goes(t, rpmOrphan)
	n.stays(t, living)
}

func rpmUpgraded(t *testing.T, n *node) {
	edited := n.read(t, config) + "\nretention: 7h\n"
	lay(t, n.Path(config), edited)
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), edited+"hold: soon\n")
	said := n.sh(t, asRPM+"rpm --upgrade ./next/orphan-reaper-*.x86_64.rpm 2>&1")
	if got := n.show("orphan-reaper", "MainPID"); got != pid || !strings.Contains(said, "the old daemon goes on running") {
		t.Errorf("with a wrong configuration: PID %s was %s: %s", got, pid, said)
	}
	lay(t, n.Path(config), edited)
	n.sh(t, "systemctl restart orphan-reaper")
	n.restarted(t, pid)
	if got := n.read(t, config); got != edited {
		t.Errorf("the configuration that was edited is now\n%s", got)
	}
	if fresh := n.read(t, config+".rpmnew"); !strings.Contains(fresh, "A later release") {
		t.Errorf("the new configuration is\n%s", fresh)
	}
	if got := n.state(); got != "enabled active notify" {
		t.Errorf("after the upgrade it is %s", got)
	}
}

func rpmErased(t *testing.T, n *node) {
	edited := n.read(t, config)
	if said := n.sh(t, asRPM+"rpm --erase orphan-reaper 2>&1"); !strings.Contains(said, "the state stays in /var/lib/orphan-reaper") {
		t.Errorf("the removal printed %s", said)
	}
	if got := n.read(t, config+".rpmsave"); got != edited {
		t.Errorf("the configuration that was saved is\n%s", got)
	}
	if exists(n.Path(config)) {
		t.Error("the configuration is there twice")
	}
	n.uninstalled(t)
	n.untold(t)
}
