package packages

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const rpmOrphan = "2badf00d-0000-4000-8000-0000000000b1"

// asRPM makes rpm accept a Debian: before Debian 13 it refuses to install anything and keeps its database in the home
// directory, and it does not know dpkg's packages.
const asRPM = `force=$(command rpm --force-debian --version >/dev/null 2>&1 && echo --force-debian || true)
rpm() { command rpm $force --nodeps --dbpath /var/lib/rpm "$@"; }
`

// A preset as Fedora and RHEL have it.
const (
	preset   = "etc/systemd/system-preset/99-default-disable.preset"
	disabled = "disable orphan-reaper.service\n"
)

// TestRPM shows the life of the RPM with a real rpm. Its scriptlets do what the macros of rpm-based distributions do;
// presets decide whether the service starts.
func TestRPM(t *testing.T) {
	everywhere(t, func(t *testing.T, release string) {
		n := newNode(t, release, map[string]string{preset: disabled})
		steps(t, n, []step{
			{"installed", rpmInstalled},
			{"upgraded", rpmUpgraded},
			{"erased", rpmErased},
		})
	})
}

func rpmInstalled(t *testing.T, n *node) {
	if out := n.sh(t, asRPM+"rpm --install ./orphan-reaper-*.x86_64.rpm 2>&1"); !strings.Contains(out, "mode: observe") ||
		!strings.Contains(out, "systemctl enable --now orphan-reaper") {
		t.Errorf("the installation printed %s", out)
	}
	if got := n.state(); got != "disabled inactive" {
		t.Errorf("the unit is %s, want disabled by the preset", got)
	}
	if out := n.sh(t, asRPM+"rpm --verify orphan-reaper"); out != "" {
		t.Errorf("rpm --verify: %s", out)
	}
	n.sh(t, "systemctl enable --now orphan-reaper")
	n.pod(t, rpmOrphan)
	n.goes(t, rpmOrphan)
	n.stays(t, living)
}

func rpmUpgraded(t *testing.T, n *node) {
	edited := n.read(t, config) + "\nmax_per_scan: 7\n"
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), edited+"hold: soon\n")
	out := n.sh(t, asRPM+"rpm --upgrade ./next/orphan-reaper-*.x86_64.rpm 2>&1")
	if got := n.show("orphan-reaper", "MainPID"); got != pid || !strings.Contains(out, "the old daemon keeps running") {
		t.Errorf("with a wrong configuration: PID %s, want %s: %s", got, pid, out)
	}
	lay(t, n.Path(config), edited)
	n.sh(t, asRPM+"rpm --upgrade --oldpackage ./orphan-reaper-*.x86_64.rpm; rpm --upgrade ./next/orphan-reaper-*.x86_64.rpm")
	n.restarted(t, pid)
	if got := n.read(t, config); got != edited {
		t.Errorf("the edited configuration is now\n%s", got)
	}
	if fresh := n.read(t, config+".rpmnew"); !strings.Contains(fresh, "A later release") {
		t.Errorf("the new configuration is\n%s", fresh)
	}
	if got := n.state(); got != "enabled active" {
		t.Errorf("after the upgrade the unit is %s", got)
	}
}

func rpmErased(t *testing.T, n *node) {
	edited := n.read(t, config)
	if out := n.sh(t, asRPM+"rpm --erase orphan-reaper 2>&1"); !strings.Contains(out, "/var/lib/orphan-reaper is kept") {
		t.Errorf("the removal printed %s", out)
	}
	if got := n.read(t, config+".rpmsave"); got != edited {
		t.Errorf("the saved configuration is\n%s", got)
	}
	if kit.Exists(n.Path(config)) {
		t.Error("the configuration exists twice")
	}
	n.uninstalled(t)
}
