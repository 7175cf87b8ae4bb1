package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// TestCluster is one story: each step needs those before it.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	c.kubectl(t, "create", "namespace", namespace)
	c.kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged")
	c.fleetFlags = c.makeSecret(t)
	c.podsReachNodes(t)
	before := c.startLiving(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"observe", observe},
		{"a circuit breaker stops the rollout", breaker},
		{"enforce on all nodes", enforce},
		{"a mount after the daemon's start", mountedLater},
		{"a node that does not answer", silent},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c) }) {
			t.Fatal(c.state())
		}
		if now := c.living(t); !maps.Equal(now, before) {
			t.Errorf("a living pod has changed: %v, want %v", now, before)
		}
	}
}

// orphan returns the UID of the pod that is an orphan on the node of that number.
func orphan(i int) string { return uid(1 + i) }

// observe: each node has a daemon, which is ready and answers fleet list, and an orphan on it stays.
func observe(t *testing.T, c *cluster) {
	c.release(t, "observe")
	eventually(t, patience, func() string { return missing(c.rollout(t).done(len(c.nodes)), "%+v\n%s", c.rollout(t), c.state()) })
	for i, n := range c.nodes {
		n.orphan(t, orphan(i))
	}
	eventually(t, patience, func() string {
		out, err := c.exec(t, c.nodes[0], "explain", orphan(0))
		return missing(strings.Contains(out, "Verdict: wait."), "the orphan is not found: %s %v", out, err)
	})
	throughout(t, 15*time.Second, func() string { // longer than the hold
		return missing(exists(c.nodes[0].podDir(orphan(0))), "in observe the pod was moved")
	})
	if f := c.fleetList(t); f.Sums.Nodes != len(c.nodes) || f.Sums.Failed != 0 || f.Sums.Observe != len(c.nodes) {
		t.Errorf("%+v", f)
	}
	if out, ok := c.sweep(t, "sweep-observe"); !ok || !strings.Contains(out, "3 nodes asked, 3 answered") {
		t.Errorf("%t: %s", ok, out)
	}
}

// breaker: the first node that enforces has a pod that returns after the move. Its directory is restored, the other nodes stay as
// they were, and fleet shows which node it is. An operator closes the circuit breaker.
func breaker(t *testing.T, c *cluster) {
	c.release(t, "enforce")
	first := -1
	eventually(t, patience, func() string {
		first = slices.IndexFunc(c.nodes, func(n *node) bool { return n.recorded(t, orphan(slices.Index(c.nodes, n)), "quarantined", "") })
		return missing(first >= 0, "no node enforces: %s", c.state())
	})
	n := c.nodes[first]
	n.orphan(t, orphan(first)) // as a kubelet makes it for a pod that returns
	n.waitRecord(t, orphan(first), "breaker", "")
	n.waitRecord(t, orphan(first), "restored", "")
	// Longer than a node takes to become ready: hold, confirm and four minutes.
	throughout(t, 5*time.Minute, func() string {
		r := c.rollout(t)
		return missing(r.Status.UpdatedNumberScheduled == 1 && r.Status.NumberAvailable == len(c.nodes)-1, "the rollout goes on: %+v\n%s", r, c.state())
	})
	f := c.fleetList(t)
	if f.Sums.Nodes != len(c.nodes) || f.Sums.Failed != 0 || f.Sums.Breakers != 1 || f.Sums.Observe != len(c.nodes)-1 || f.Nodes[0].Node != n.name {
		t.Errorf("%+v", f)
	}
	if out, ok := c.sweep(t, "sweep-breaker"); ok || !strings.Contains(out, n.name) || !strings.Contains(out, "circuit breaker") {
		t.Errorf("%t: %s", ok, out)
	}
	if out, err := c.exec(t, n, "quarantine", "resume"); err != nil {
		t.Fatal(out, err)
	}
}

// enforce: the rollout goes on, one node at a time, and each orphan is removed.
func enforce(t *testing.T, c *cluster) {
	eventually(t, time.Duration(len(c.nodes))*6*time.Minute, func() string {
		r := c.rollout(t)
		if r.Status.NumberAvailable < len(c.nodes)-1 {
			t.Fatalf("more than one node has no ready daemon: %+v\n%s", r, c.state())
		}
		return missing(r.done(len(c.nodes)), "%+v\n%s", r, c.state())
	})
	for i, n := range c.nodes {
		if n.recorded(t, orphan(i), "breaker", "") {
			continue // it has a longer hold now
		}
		n.waitRecord(t, orphan(i), "removed", "")
		if exists(n.podDir(orphan(i))) {
			t.Errorf("%s: the orphan still exists", n.name)
		}
	}
	if f := c.fleetList(t); f.Sums.Failed != 0 || f.Sums.Observe != 0 || f.Sums.Breakers != 0 {
		t.Errorf("%+v", f)
	}
	if out, ok := c.sweep(t, "sweep-enforce"); !ok || !strings.Contains(out, "3 nodes asked, 3 answered") {
		t.Errorf("%t: %s", ok, out)
	}
}

// mountedLater: a mount below the directory of a dead pod, made after the start of the daemon's pod, is visible to the daemon and
// keeps the pod with its data. When it is gone, the pod is removed.
func mountedLater(t *testing.T, c *cluster) {
	n, id := c.nodes[0], uid(10)
	// It gets its name at last, since the kubelet removes empty directories, and the daemon moves what has no mount. The mount is on
	// no volume: a kubelet at -v=2 reports no pod with a mounted one.
	const staging = "/var/lib/kubelet/staging"
	n.Run(t, "mkdir", "-p", staging+"/containers/mem")
	n.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "later", staging+"/containers/mem")
	n.residue(t, staging)
	n.Run(t, "mv", staging, filepath.Join("/var/lib/kubelet/pods", id))
	dir := filepath.Join("/var/lib/kubelet/pods", id, "containers/mem")
	lay(t, n.Path(dir, "precious"), "a user's")
	n.waitRecord(t, id, "kept", "mounted")
	throughout(t, 15*time.Second, func() string { // longer than the hold
		return missing(exists(n.Path(dir, "precious")), "the file in the later mount is gone")
	})
	if n.recorded(t, id, "quarantined", "") {
		t.Error("the pod was moved")
	}
	n.Run(t, "umount", dir)
	c.sweep(t, "sweep-unmounted") // else the next scan may come in five minutes
	n.waitRecord(t, id, "removed", "")
}

// silent: a daemon that does not answer fails the Job, which names its node.
func silent(t *testing.T, c *cluster) {
	c.apply(t, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: gone, namespace: `+namespace+`,
  labels: {kubernetes.io/service-name: orphan-reaper, endpointslice.kubernetes.io/managed-by: e2e}}, addressType: IPv4,
  ports: [{name: https, port: 9477}], endpoints: [{addresses: [10.213.78.99], nodeName: node-gone}]}`)
	if out, ok := c.sweep(t, "sweep-silent"); ok || !strings.Contains(out, "4 nodes asked, 3 answered") || !strings.Contains(out, "node-gone") {
		t.Errorf("%t: %s", ok, out)
	}
}

// orphan makes an orphan of a pod that the API server never had, as after a restore of the cluster.
func (n *node) orphan(t *testing.T, uid string) {
	t.Helper()
	n.residue(t, filepath.Join("/var/lib/kubelet/pods", uid))
}

// residue makes what is left of a CSI volume whose teardown was interrupted. It is as old as an hour, since a young volume keeps
// its pod.
func (n *node) residue(t *testing.T, pod string) {
	t.Helper()
	dir := filepath.Join(pod, "volumes/kubernetes.io~csi/pvc-e2e")
	lay(t, n.Path(dir, "vol_data.json"), `{"attachmentID":"csi-1","driverName":"e2e.csi.invalid","nodeName":"e2e","specVolID":"pvc-e2e",`+
		`"volumeHandle":"vol-1","volumeLifecycleMode":"Persistent"}`)
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{filepath.Join(dir, "vol_data.json"), dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chtimes(n.Path(path), old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// template is the template of the living pods. Their container writes a file, and ends if the file is gone.
var template = fmt.Sprintf(`{metadata: {labels: {app: living}}, spec: {terminationGracePeriodSeconds: 1, automountServiceAccountToken: false,
  volumes: [{name: data, emptyDir: {}}], containers: [
  {name: app, image: %s, imagePullPolicy: Never, command: [/pause, /data], volumeMounts: [{name: data, mountPath: /data}]}]}}`, image.Name)

// startLiving starts pods that run beside all steps and must not be affected.
func (c *cluster) startLiving(t *testing.T) map[string]string {
	t.Helper()
	c.kubectl(t, "create", "namespace", "living")
	c.apply(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: living, namespace: living}, spec: {selector: {matchLabels: {app: living}}, template: `+template+`}}`)
	eventually(t, patience, func() string {
		all := c.pods(t, "living", "app=living")
		return missing(len(all) == len(c.nodes) && !slices.ContainsFunc(all, func(p pod) bool { return !p.ready() }), "the living pods: %+v", all)
	})
	return c.living(t)
}

// living returns what must not change of them: by node, the pod, its containers and its file.
func (c *cluster) living(t *testing.T) map[string]string {
	t.Helper()
	life := map[string]string{}
	for _, p := range c.pods(t, "living", "app=living") {
		born := read(t, c.node(t, p.Spec.NodeName).podDir(p.Metadata.UID, "volumes/kubernetes.io~empty-dir/data/born"))
		life[p.Spec.NodeName] = fmt.Sprint(p.Metadata.UID, p.Status.ContainerStatuses, born)
	}
	return life
}
