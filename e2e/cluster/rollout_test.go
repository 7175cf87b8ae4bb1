package cluster

import (
	"fmt"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// rollout: a new image goes to one node after the other, and then a node is drained. What was parked with a user's
// data is still there, what was under way is finished, and the daemon of a drained node works on.
func rollout(t *testing.T, c *cluster) {
	n := c.nodes[0]
	old := c.daemon(t, n)
	kept := n.dead(t, newUID(t), data)
	old.parked(t, kept)
	t.Run("upgrade", func(t *testing.T) {
		begun := n.dead(t, newUID(t), unmounted)
		old.tells(t, begun, policy.KindParked, "")
		c.upgrade(t, "image.tag="+tagAfter)
		both := 0
		eventually(t, 2*patience, func() string {
			running := 0
			for _, p := range c.pods(t, namespace, selector) {
				if p.ready() {
					running++
				}
			}
			if both = max(both, len(c.nodes)-running); both > 1 {
				t.Fatal("no daemon is ready on any node")
			}
			out, err := c.try("--namespace", namespace, "rollout", "status", "daemonset/orphan-reaper", "--watch=false")
			return missing(err == nil && out == `daemon set "orphan-reaper" successfully rolled out`, "%s %v", out, err)
		})
		d := c.daemon(t, n)
		if d.pod.Metadata.UID == old.pod.Metadata.UID {
			t.Error("it is the same pod")
		}
		d.removed(t, begun)
		if phase := d.scan(t).phase(kept); phase != "held" {
			t.Errorf("what was parked with data is %q", phase)
		}
		d.checkData(t, kept)
	})
	t.Run("drain", func(t *testing.T) {
		before := c.daemon(t, n)
		c.kubectl(t, "create", "namespace", "drained")
		c.apply(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: drained}, spec: {
  selector: {matchLabels: {app: web}}, template: %s}}`, template("web", n.name)))
		web := c.one(t, "drained", "app=web")
		n.leave(t, web.Metadata.UID, unmounted)
		c.kubectl(t, "drain", n.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
		before.removed(t, web.Metadata.UID)
		d := c.daemon(t, n)
		if d.pod.Metadata.UID != before.pod.Metadata.UID || d.pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Error("the drain took the daemon away")
		}
		if phase := d.scan(t).phase(kept); phase != "held" {
			t.Errorf("what was parked with data is %q", phase)
		}
		c.kubectl(t, "uncordon", n.name)
		c.kubectl(t, "delete", "namespace", "drained", "--wait=false")
		d.checkData(t, kept)
	})
}
