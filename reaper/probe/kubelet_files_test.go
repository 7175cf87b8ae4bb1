package probe

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

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
