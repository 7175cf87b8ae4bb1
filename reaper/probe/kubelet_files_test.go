package probe

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestKubeletInItsOwnMountNamespace has a real kubelet-like process for which other files
// lie at the same paths.
func TestKubeletInItsOwnMountNamespace(t *testing.T) {
	n, uid, static := newNode(t), newUID(), newStaticUID()
	n.mkdir(n.pod(uid), n.pod(static), "their/kubelet/pods", "logs/kube-system_etcd-node-1_"+string(static))
	n.write("etc/config.yaml", "containerRuntimeEndpoint: unix:///of/the/host\nstaticPodPath: "+n.path("etc/manifests")+"\n")
	n.mkdir("etc/manifests")
	n.write("their/etc/config.yaml", "containerRuntimeEndpoint: unix:///its/own\nstaticPodPath: "+n.path("etc/manifests")+"\n")
	n.write("their/etc/manifests/etcd.yaml", testkit.EtcdManifest)
	n.symlink(n.path("etc"), "link") // absolute: it must not lead to our etc
	self, err := os.Executable()
	must(t, err)
	n.symlink(self, "bin/kubelet")
	args := []string{"kubelet", "--root-dir", n.path("kubelet"), "--hostname-override=node-1", "--config", n.path("link/config.yaml")}
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, "unix://"+n.path("none.sock")

	cmd := testkit.StartApart(t, n.path("their/etc")+":"+n.path("etc"), n.path("bin/kubelet"), args...)
	look := n.look()
	if f := look.Node.Kubelet; f.Truth != policy.Yes || look.Node.KubeletID.PID != cmd.Process.Pid {
		t.Errorf("the same root directory: %+v", f)
	}
	wantDetail(t, look.Node.Agrees, "uses unix:///its/own")
	check(t, find(t, look, static), facts{policy.FactStaticPod: policy.Yes})
	check(t, find(t, look, uid), facts{policy.FactStaticPod: policy.No})
	must(t, cmd.Process.Kill())
	testkit.WaitForZombie(t, cmd.Process.Pid)

	testkit.StartApart(t, n.path("their/kubelet")+":"+n.path("kubelet"), n.path("bin/kubelet"), args...)
	look = n.look()
	if f := look.Node.Kubelet; f.Truth != policy.No {
		t.Errorf("another directory of that name: %+v", f)
	}
	if f := look.Node.Agrees; f.Truth != policy.No {
		t.Errorf("another directory of that name: %+v", f)
	}
}

// TestRootOnItsOwnFileSystemBehindASymlink looks at a root directory that is reached in two
// ways, of which the kubelet was told the other one.
func TestRootOnItsOwnFileSystemBehindASymlink(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, dead, mounted := newNode(t), newUID(), newUID()
	n.mount("", "disk")
	must(t, os.Remove(n.path("kubelet/pods")))
	must(t, os.Remove(n.path("kubelet")))
	n.mkdir("disk/k/pods/"+string(dead), "disk/k/pods/"+string(mounted)+"/volumes")
	n.symlink("disk/k", "kubelet")
	must(t, unix.Mount("tmpfs", n.path("disk/k/pods/"+string(mounted)+"/volumes"), "tmpfs", 0, ""))
	self, err := os.Executable()
	must(t, err)
	n.symlink(self, "bin/kubelet")
	testkit.StartProcess(t, "idle", n.path("bin/kubelet"), "kubelet", "--root-dir", n.path("disk/k"))
	n.cfg.Waive = false
	look := n.look()
	if f := look.Node.Kubelet; f.Truth != policy.Yes {
		t.Errorf("the kubelet: %+v", f)
	}
	if f := look.Node.Agrees; f.Truth != policy.Yes {
		t.Errorf("agrees: %+v", f)
	}
	check(t, find(t, look, dead), but(nil))
	check(t, find(t, look, mounted), facts{policy.FactMounted: policy.Yes})
}
