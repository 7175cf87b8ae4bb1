package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// deaf: the daemon receives no log of this node's kubelet. The pod's absence from the kubelet's list is not enough to
// release it: the kubelet may work on one of its volumes, which only its log shows. The pod is kept, and the report
// has the reason.
func deaf(t *testing.T, c *cluster) {
	d := c.daemon(t, c.nodes[1])
	uid := d.dead(t, newUID(t), unmounted)
	d.look(t)
	d.waitRecord(t, uid, policy.KindKept, policy.ReasonKubeletUnknown)
	throughout(t, 8*time.Second, func() string { // longer than the hold
		return missing(exists(d.podDir(uid)), "it is gone: %s", kit.Texts(d.records(t, uid)))
	})
	p := d.scan(t).pod(t, uid)
	if p.Facts["kubelet_lists"].Value != "no" || p.Facts["held"].Value != "unknown" {
		t.Errorf("kept for %+v", p)
	}
	if err := os.RemoveAll(d.podDir(uid)); err != nil {
		t.Error(err)
	}
}
