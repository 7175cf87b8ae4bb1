package cluster

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// mounted makes an orphan that is kept because a file system is mounted in its directory. It returns the mount point.
func (n *node) mounted(t *testing.T, uid string) (volume string) {
	t.Helper()
	n.dead(t, uid, unmounted)
	volume = "/var/lib/kubelet/pods/" + uid + "/volumes/" + emptyDir + "/mem"
	n.Run(t, "mkdir", "-p", volume)
	n.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "later", volume)
	lay(t, n.Path(volume, "precious"), precious)
	return volume
}

// mountedLater: a mount that the node makes below the directory of a dead pod after the start of the daemon's
// pod appears in the daemon's own mount namespace, and keeps that pod. When it is gone, the pod is removed.
func mountedLater(t *testing.T, c *cluster) {
	n := c.nodes[0]
	d, uid := c.daemon(t, n), newUID(t)
	volume := n.mounted(t, uid)
	d.look(t)
	n.waitRecord(t, uid, policy.KindKept, policy.ReasonMounted)
	throughout(t, 10*time.Second, func() string { // longer than the hold
		return missing(exists(n.Path(volume, "precious")), "the file in the later mount is gone: %s", kit.Texts(n.records(t, uid)))
	})
	if kinds := n.kinds(t, uid); kinds[string(policy.KindParked)] {
		t.Errorf("the pod was parked: %s", kit.Texts(n.records(t, uid)))
	}
	n.Run(t, "umount", volume)
	d.removed(t, uid)
}
