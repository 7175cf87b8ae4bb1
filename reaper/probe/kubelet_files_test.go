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
	n.Mkdir(n.PodDir(uid), n.PodDir(static), "their/kubelet/pods", "logs/kube-system_etcd-node-1_"+string(static))
	n.Write("etc/config.yaml", "containerRuntimeEndpoint: unix:///of/the/host\nstaticPodPath: "+n.Path("etc/manifests")+"\n")
	n.Mkdir("etc/manifests")
	n.Write("their/etc/config.yaml", "containerRuntimeEndpoint: unix:///its/own\nstaticPodPath: "+n.Path("etc/manifests")+"\n")
	n.Write("their/etc/manifests/etcd.yaml", testkit.EtcdManifest)
	n.Symlink(n.Path("etc"), "link") // absolute: it must not lead to our etc
	self, err := os.Executable()
	must(t, err)
	n.Symlink(self, "bin/kubelet")
	args := []string{"kubelet", "--root-dir", n.Path("kubelet"), "--hostname-override=node-1", "--config", n.Path("link/config.yaml")}
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, "unix://"+n.Path("none.sock")

	cmd := testkit.StartApart(t, n.Path("their/etc")+":"+n.Path("etc"), n.Path("bin/kubelet"), args...)
	look := n.look()
	if f := look.Node.Kubelet; f.Truth != policy.Yes || look.Node.KubeletID.PID != cmd.Process.Pid {
		t.Errorf("the same root directory: %+v", f)
	}
	wantDetail(t, look.Node.Agrees, "uses unix:///its/own")
	check(t, find(t, look, static), facts{policy.FactStaticPod: policy.Yes})
	check(t, find(t, look, uid), facts{policy.FactStaticPod: policy.No})
	must(t, cmd.Process.Kill())
	testkit.WaitForZombie(t, cmd.Process.Pid)

	testkit.StartApart(t, n.Path("their/kubelet")+":"+n.Path("kubelet"), n.Path("bin/kubelet"), args...)
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
	must(t, os.Remove(n.Path("kubelet/pods")))
	must(t, os.Remove(n.Path("kubelet")))
	n.Mkdir("disk/k/pods/"+string(dead), "disk/k/pods/"+string(mounted)+"/volumes")
	n.Symlink("disk/k", "kubelet")
	must(t, unix.Mount("tmpfs", n.Path("disk/k/pods/"+string(mounted)+"/volumes"), "tmpfs", 0, ""))
	self, err := os.Executable()
	must(t, err)
	n.Symlink(self, "bin/kubelet")
	testkit.StartProcess(t, "idle", n.Path("bin/kubelet"), "kubelet", "--root-dir", n.Path("disk/k"))
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
