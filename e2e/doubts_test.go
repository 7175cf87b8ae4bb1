package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// briefly is a confirm time for pods that are certainly dead.
const briefly = 2 * time.Second

// doubts: an agent works in a chroot of a mount namespace of its own, which has a private mount in one dead
// pod. The kubelet reports only that one. A second one is removed by the kubelet's silence, agent or not, but
// not while the pods' network is not ready. The first one is removed when the agent has ended.
func doubts(t *testing.T, n *node) {
	mounted, dead := n.uid("0badf00d-a000-4000-8000-00000000001_"), n.uid("0badf00d-a000-4000-8000-00000000002_")
	config := filepath.Join(n.dir, "cni", "10-e2e.conflist")
	rename(t, config, config+".away")
	back := func() {
		if exists(config + ".away") {
			rename(t, config+".away", config)
		}
	}
	t.Cleanup(back)
	n.networkIs(t, false)
	n.restartKubelet(t) // at the default verbosity it reports one
	eventually(t, 60*time.Second, func() string { return missing(n.tookOver(t), "the kubelet has not looked for volumes yet") })

	held := n.plant(t, skeleton, mounted)
	root := mkdir(t, filepath.Join(n.dir, "chroot"))
	must(t, "cp", filepath.Join(n.host.dir, "pause"), root)
	agent := launch(t, "agent", filepath.Join(n.dir, "agent.log"), "unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs agent "$0" && exec chroot "$1" /pause`, held.dir, root)
	t.Cleanup(func() { agent.end(t) })
	n.plant(t, skeleton, dead)
	d := n.reap(t, "--confirm", briefly.String())
	d.waitRecord(t, 60*time.Second, mounted, "the agent's mount keeps it", keptFor(policy.ReasonMounted))
	eventually(t, 60*time.Second, func() string { return missing(n.logged(mounted+`\" found`), "the kubelet names nothing") })
	throughout(t, hold+settle+briefly+2*time.Second, func() string {
		return missing(exists(filepath.Join(n.pods, dead)), "the other pod went by silence, without a network:\n%s", d.story())
	})
	if n.logged(dead + `\" found`) {
		t.Errorf("the kubelet has reported the other pod, so the run proves nothing")
	}
	back()
	n.networkIs(t, true)
	d.waitRecord(t, hold+settle+briefly+60*time.Second, dead, "it is removed", goes)
	if !exists(held.dir) || slices.ContainsFunc(d.of(mounted), kind(policy.KindParking)) {
		t.Errorf("the pod in which the agent has a mount was parked:\n%s", d.story())
	}
	agent.end(t)
	d.waitRecord(t, hold+settle+briefly+60*time.Second, mounted, "it is removed", goes)
}

func goes(r policy.Record) bool { return r.Kind == policy.KindStripped || r.Kind == policy.KindRemoved }

// networkIs waits until the runtime's pod network is ready, or not ready.
func (n *node) networkIs(t *testing.T, ready bool) {
	t.Helper()
	cri := n.cri(t)
	eventually(t, 30*time.Second, func() string {
		st, err := cri.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil {
			return err.Error()
		}
		for _, c := range st.GetStatus().GetConditions() {
			if c.GetType() == runtimeapi.NetworkReady && c.GetStatus() == ready {
				return ""
			}
		}
		return fmt.Sprintf("NetworkReady is not %t", ready)
	})
}

// successor: a dead pod and a living one have the same CSI volume. It is staged as long as the living one runs, and
// keeps the dead one only until its owner is found.
func successor(t *testing.T, n *node) {
	const driver, handle = "csi.e2e.example", "vol-1"
	const data = `{"attachmentID":"a","driverName":"` + driver + `","nodeName":"n","specVolID":"pv-1","volumeHandle":"` + handle + `"}`
	uid, next := n.uid("0badf00d-a000-4000-8000-00000000003_"), n.livingPods(t)[0].uid
	mount := func(path string) {
		t.Helper()
		if err := unix.Mount("e2e", mkdir(t, path), "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	plugin := filepath.Join(n.root, "plugins", "kubernetes.io", "csi", driver)
	t.Cleanup(func() { _ = os.RemoveAll(plugin) })
	staged := filepath.Join(plugin, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
	mount(filepath.Join(staged, "globalmount"))
	write(t, filepath.Join(staged, "vol_data.json"), `{"driverName":"`+driver+`","volumeHandle":"`+handle+`"}`)
	made := mkdir(t, filepath.Join(n.root, "planting", uid))
	volume := filepath.Join("volumes", "kubernetes.io~csi", "pv-1")
	write(t, filepath.Join(mkdir(t, filepath.Join(made, volume)), "vol_data.json"), data)
	write(t, filepath.Join(mkdir(t, filepath.Join(made, volume, "mount")), "in the way"), "")
	rename(t, made, filepath.Join(n.pods, uid))
	d := n.reap(t, "--confirm", briefly.String())
	d.waitRecord(t, 60*time.Second, uid, "what is staged keeps it", keptFor(policy.ReasonStaged))

	own := filepath.Join(n.pods, next, volume)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(n.pods, next, "volumes", "kubernetes.io~csi")) })
	mount(filepath.Join(own, "mount"))
	write(t, filepath.Join(own, "vol_data.json"), data)
	d.waitRecord(t, hold+settle+briefly+90*time.Second, uid, "it is removed", goes)
	if !exists(filepath.Join(own, "vol_data.json")) {
		t.Errorf("the successor has lost its volume:\n%s", d.story())
	}
}
