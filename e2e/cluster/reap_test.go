package cluster

import (
	"fmt"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// end: pods of a Deployment and a StatefulSet are force-deleted, one of a Job while its node's kubelet is dead, and
// leave residue that no kubelet removes. The kubelet's garbage collection of sandboxes runs once a minute, and before
// it no pod is removed, so other scenarios run between this and reaped.
func end(t *testing.T, c *cluster) {
	n := c.nodes[0]
	c.kubectl(t, "create", "namespace", "apps")
	c.apply(t, fmt.Sprintf(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: apps}, spec: {selector: {matchLabels: {app: web}}, template: %s}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: apps}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: %s}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: apps}, spec: {template: {metadata: {labels: {app: once}}, spec: {
  restartPolicy: Never, automountServiceAccountToken: false, nodeSelector: {kubernetes.io/hostname: %s}, containers: [
  {name: app, image: "orphan-reaper:%s", imagePullPolicy: Never, command: [/orphan-reaper, version]}]}}}}
`, template("web", n.name), template("db", n.name), n.name, tagBefore))
	web, db := c.one(t, "apps", "app=web"), c.one(t, "apps", "app=db")
	c.kubectl(t, "--namespace", "apps", "wait", "--for=condition=Complete", "job/once", "--timeout=20s")
	once := c.pods(t, "apps", "app=once")[0]
	n.withoutKubelet(t, func() {
		n.leave(t, once.Metadata.UID, data)
		c.kubectl(t, "--namespace", "apps", "delete", "job", "once", "--wait=false")
		c.kubectl(t, "--namespace", "apps", "delete", "pod", "--force", "--grace-period=0", "--ignore-not-found", once.Metadata.Name)
	})
	for _, p := range []pod{web, db} {
		n.leave(t, p.Metadata.UID, unmounted) // a starting kubelet would adopt it as a volume
	}
	c.kubectl(t, "--namespace", "apps", "delete", "pod", "--force", "--grace-period=0", web.Metadata.Name, db.Metadata.Name)
	c.ended.web, c.ended.db, c.ended.once = web, db, once
}

// reaped: their residue is removed, and possible user data is parked. The pod that replaced one under its name is not
// touched.
func reaped(t *testing.T, c *cluster) {
	n := c.nodes[0]
	d, web, db, once := c.daemon(t, n), c.ended.web, c.ended.db, c.ended.once
	t.Run("of a Deployment", func(t *testing.T) {
		d.removed(t, web.Metadata.UID)
		if next := c.one(t, "apps", "app=web"); next.Metadata.UID == web.Metadata.UID {
			t.Error("the pod was not replaced")
		}
	})
	t.Run("of a StatefulSet, recreated under the same name", func(t *testing.T) {
		d.removed(t, db.Metadata.UID)
		next := c.one(t, "apps", "app=db")
		if next.Metadata.UID == db.Metadata.UID || next.Metadata.Name != db.Metadata.Name || next.Spec.NodeName != n.name {
			t.Errorf("successor %+v of %+v", next, db)
		}
		if !exists(n.podDir(next.Metadata.UID, "volumes", emptyDir, "data", "born")) {
			t.Error("the successor has lost its file")
		}
		for _, e := range n.records(t, next.Metadata.UID) {
			if e.Get("ORPHAN_REAPER_KIND") == string(policy.KindParked) {
				t.Errorf("the successor was parked: %s", e.Get("MESSAGE"))
			}
		}
	})
	t.Run("of a Job, with data", func(t *testing.T) { d.parked(t, once.Metadata.UID) })
	c.kubectl(t, "delete", "namespace", "apps", "--wait=false")
}
