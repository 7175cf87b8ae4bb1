package packages

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// unitPrivate: a daemon in a mount namespace of its own removes nothing, because it cannot see the node's mounts. The
// rest of the test shows the loss.
func unitPrivate(t *testing.T, n *node) {
	n.override(t, "MountFlags=private\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	on := n.mounted(t, unitHidden)
	n.pod(t, unitAlone)
	n.logs(t, "names", unitHidden, unitAlone)
	// The daemon has read the mount in PID 1's mountinfo, and removes nothing else either.
	n.waitRecord(t, unitHidden, policy.KindKept, policy.ReasonMounted)
	n.waitRecord(t, unitAlone, policy.KindKept, policy.ReasonNamespaces)
	n.stays(t, unitHidden)
	n.stays(t, unitAlone)
	if got := n.Run(t, "cat", on+"/precious"); got != users {
		t.Errorf("file on the mount: %q", got)
	}
	if n.release != "trixie" {
		n.busy(t, on) // an older systemd's namespaces do not have this problem
		return
	}
	n.Run(t, "nsenter", "--target", n.show("orphan-reaper", "MainPID"), "--mount", "rmdir", on)
	if exists(n.Path(on + "/precious")) {
		t.Error("the node's mount still exists, so this namespace is harmless")
	}
	if got := n.read(t, "/"+behind); got != users {
		t.Errorf("file behind the mount: %q", got)
	}
}

// unitSlave: options that only hide something make a namespace that receives the node's mounts.
func unitSlave(t *testing.T, n *node) {
	n.override(t, "PrivateTmp=yes\n"+hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
	on := n.mounted(t, unitSeen)
	n.logs(t, "names", unitSeen)
	n.waitRecord(t, unitSeen, policy.KindKept, policy.ReasonMounted)
	n.stays(t, unitSeen)
	n.busy(t, on)
	n.Run(t, "umount", on)
	eventually(t, patience, func() string {
		n.logs(t, "names", unitSeen)
		return missing(!exists(n.dirOf(unitSeen)), "it is still there: %s", kit.Texts(n.of(t, unitSeen)))
	})
	n.goes(t, unitSeen)
	n.override(t, hasty)
	n.Run(t, "systemctl", "restart", "orphan-reaper")
}

// mounted makes a pod in whose volume the node mounts a user's directory.
func (n *node) mounted(t *testing.T, uid string) string {
	t.Helper()
	n.pod(t, uid)
	on := "/var/lib/kubelet/pods/" + uid + "/volumes/" + nfs + "/vol"
	n.Run(t, "mount", "--bind", filepath.Dir(behind), on)
	return on
}

// busy checks that the kernel refuses to remove a mount point from the daemon's namespace.
func (n *node) busy(t *testing.T, on string) {
	t.Helper()
	pid := n.show("orphan-reaper", "MainPID")
	if out, err := n.Try("nsenter", "--target", pid, "--mount", "rmdir", on); err == nil || !strings.Contains(err.Error(), "Device or resource busy") {
		t.Errorf("rmdir on the mount: %q, %v", out, err)
	}
	if got := n.Run(t, "cat", on+"/precious"); got != users {
		t.Errorf("file on the mount: %q", got)
	}
}
