package cluster

import (
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The directories of the volume plugins in the kubelet's own code.
const (
	csi      = "kubernetes.io~csi"
	emptyDir = "kubernetes.io~empty-dir"
)

// remains is residue of a pod that the kubelet does not remove: files by their path in the pod's directory.
type remains map[string]string

var (
	// unmounted is the residue of a CSI volume whose tear-down was interrupted: it has no user data, and is removed.
	// A starting kubelet adopts it as a volume and holds it, so it is planted while the kubelet runs.
	unmounted = remains{filepath.Join("volumes", csi, "pvc-e2e", "vol_data.json"): `{"attachmentID":"csi-1","driverName":"e2e.csi.invalid",` +
		`"nodeName":"e2e","specVolID":"pvc-e2e","volumeHandle":"vol-1","volumeLifecycleMode":"Persistent"}`}
	// data may be a user's: it remains in quarantine until the operator decides.
	data = remains{filepath.Join("volume-subpaths", "vol", "app", "0", "precious"): precious}
)

const precious = "a user's, not to be lost"

func (n *node) leave(t *testing.T, uid string, left remains) {
	t.Helper()
	for path, text := range left {
		lay(t, n.podDir(uid, path), text)
	}
}

func newUID(t *testing.T) string {
	t.Helper()
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// dead makes an orphan of a pod that the API server never had, as after a restore of the cluster: the running kubelet
// finds and reports it.
func (n *node) dead(t *testing.T, uid string, left remains) string {
	t.Helper()
	mkdir(t, n.podDir(uid))
	n.leave(t, uid, left)
	return uid
}

// removed waits until the pod is removed completely, also from quarantine.
func (d *daemon) removed(t *testing.T, uid string) {
	t.Helper()
	d.waitRecord(t, uid, policy.KindRemoved, "")
	if exists(d.podDir(uid)) {
		t.Errorf("%s still exists", uid)
	}
	if phase := d.scan(t).phase(uid); phase != "" {
		t.Errorf("%s is still in quarantine: %s", uid, phase)
	}
}

// parked waits until the pod's residue is confirmed in quarantine, with everything that may be a user's.
func (d *daemon) parked(t *testing.T, uid string) {
	t.Helper()
	d.waitRecord(t, uid, policy.KindParked, "")
	if exists(d.podDir(uid)) {
		t.Errorf("%s still exists", uid)
	}
	eventually(t, patience, func() string {
		phase := d.scan(t).phase(uid)
		return missing(phase == "held", "%s is %q in quarantine: %s", uid, phase, kit.Texts(d.records(t, uid)))
	})
	d.checkData(t, uid)
}

// checkData fails if any of the parked data is missing.
func (n *node) checkData(t *testing.T, uid string) {
	t.Helper()
	for path, text := range data {
		found, err := filepath.Glob(n.Path("/var/lib/kubelet/orphan-reaper", "*"+uid+"*", path))
		if err != nil || len(found) != 1 {
			t.Errorf("%s is not in quarantine: %q, %v", path, found, err)
			continue
		}
		if got := read(t, found[0]); got != text {
			t.Errorf("%s contains %q", found[0], got)
		}
	}
}

// template is the template of pods with that label on that node. Their container writes a file, and ends if the file
// is gone.
func template(name, node string) string {
	where := ""
	if node != "" {
		where = ", nodeSelector: {kubernetes.io/hostname: " + node + "}"
	}
	return fmt.Sprintf(`{metadata: {labels: {app: %s}}, spec: {terminationGracePeriodSeconds: 1, automountServiceAccountToken: false%s,
  volumes: [{name: data, emptyDir: {}}], containers: [
  {name: app, image: %s, imagePullPolicy: Never, command: [/pause, /data], volumeMounts: [{name: data, mountPath: /data}]}]}}`, name, where, image.Name)
}

// living are pods of a DaemonSet that run beside all scenarios and must not be affected.
const living = "living"

// life is the part of the living pods that must not change: by node, the pod, its containers and its file.
type life map[string]string

func (c *cluster) startLiving(t *testing.T) life {
	t.Helper()
	c.kubectl(t, "create", "namespace", living)
	c.apply(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: living, namespace: living}, spec: {
  selector: {matchLabels: {app: living}}, template: %s}}`, template(living, "")))
	c.kubectlEventually(t, "the living pods", func() string {
		all := c.pods(t, living, "app=living")
		return missing(len(all) == len(c.nodes) && !slices.ContainsFunc(all, func(p pod) bool { return !p.ready() }), "%+v", all)
	})
	return c.living(t)
}

func (c *cluster) living(t *testing.T) life {
	t.Helper()
	l := life{}
	for _, p := range c.pods(t, living, "app=living") {
		born := read(t, c.node(t, p.Spec.NodeName).podDir(p.Metadata.UID, "volumes", emptyDir, "data", "born"))
		l[p.Spec.NodeName] = strings.Join([]string{p.Metadata.UID, fmt.Sprint(p.Status.ContainerStatuses), born}, " ")
	}
	return l
}

// sameLife fails if a living pod has changed.
func (c *cluster) sameLife(t *testing.T, before life) {
	t.Helper()
	if now := c.living(t); !maps.Equal(now, before) {
		t.Errorf("a living pod has changed: %v, want %v", now, before)
	}
}
