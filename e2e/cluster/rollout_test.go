package cluster

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// rollout: a node is drained, and a new image is rolled out node by node. The drained node's daemon keeps working,
// parked user data remains, and unfinished actions are finished.
func rollout(t *testing.T, c *cluster) {
	n := c.nodes[0]
	old := c.daemon(t, n)
	kept := c.ended.once.Metadata.UID // parked by an earlier scenario, unless this one runs alone
	if kept = cmp.Or(kept, newUID(t)); c.ended.once.Metadata.UID == "" {
		n.dead(t, kept, data)
	}
	old.parked(t, kept)
	var web pod
	t.Run("drain", func(t *testing.T) {
		c.kubectl(t, "create", "namespace", "drained")
		c.apply(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: drained}, spec: {
  selector: {matchLabels: {app: web}}, template: %s}}`, template("web", n.name)))
		web = c.one(t, "drained", "app=web")
		n.leave(t, web.Metadata.UID, unmounted)
		c.kubectl(t, "drain", n.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
		if d := c.daemon(t, n); d.pod.Metadata.UID != old.pod.Metadata.UID || d.pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Error("the drain removed the daemon")
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		begun := n.dead(t, newUID(t), unmounted)
		old.waitRecord(t, begun, policy.KindParked, "")
		c.upgrade(t, "image.tag="+tagAfter)
		c.oneAtATime(t)
		d := c.daemon(t, n)
		if d.pod.Metadata.UID == old.pod.Metadata.UID {
			t.Error("the pod was not replaced")
		}
		d.removed(t, begun)
		if phase := d.scan(t).phase(kept); phase != "held" {
			t.Errorf("the phase of the entry with data is %q", phase)
		}
		d.checkData(t, kept)
	})
	t.Run("what the drained pod left", func(t *testing.T) { c.daemon(t, n).removed(t, web.Metadata.UID) })
	c.kubectl(t, "uncordon", n.name)
	c.kubectl(t, "delete", "namespace", "drained", "--wait=false")
}

// oneAtATime waits for the end of the rollout, during which at least one node must have a ready daemon.
func (c *cluster) oneAtATime(t *testing.T) {
	t.Helper()
	eventually(t, 2*patience, func() string {
		running := 0
		for _, p := range c.pods(t, namespace, selector) {
			if p.ready() {
				running++
			}
		}
		if running == 0 {
			t.Fatal("no daemon is ready on any node")
		}
		out, err := c.try("--namespace", namespace, "rollout", "status", "daemonset/orphan-reaper", "--watch=false")
		return missing(err == nil && out == `daemon set "orphan-reaper" successfully rolled out`, "%s %v", out, err)
	})
}
