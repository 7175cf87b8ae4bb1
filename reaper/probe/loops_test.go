package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestLoopDevice: the kernel holds the file of a loop device open, and no process does. Here no
// device can be asked, and the path must do.
func TestLoopDevice(t *testing.T) {
	n, uid, device, other := newNode(t), newUID(), newUID(), newUID()
	n.mkdir(n.pod(other), n.pod(device), "block/loop0", "block/sda/loop")
	n.write(n.pod(uid)+"/volumes/kubernetes.io~empty-dir/d/disk", "x")
	n.write("x/"+string(other)+"/disk", "x")
	for name, path := range map[string]string{
		"loop1": n.path(n.pod(uid)) + "/volumes/kubernetes.io~empty-dir/d/disk",
		"loop2": n.path("x/" + string(other) + "/disk"),
		"loop3": n.path("kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv/" + string(device)),
		"sda":   n.path(n.pod(other)) + "/no loop device",
	} {
		n.write("block/"+name+"/loop/backing_file", path+"\n")
	}
	n.cfg.SysBlockDir, n.cfg.DevDir = n.path("block"), n.path("dev")
	look := n.look()
	for _, uid := range []parsers.PodUID{uid, device} {
		check(t, find(t, look, uid), but(facts{policy.FactInUse: policy.Yes}))
		wantDetail(t, find(t, look, uid).Facts[policy.FactInUse], "losetup -d "+n.path("dev/loop"))
	}
	check(t, find(t, look, other), dead())
	t.Run("a file that is not there", func(t *testing.T) {
		n.write("block/loop4/loop/backing_file", "/nowhere/f\n")
		check(t, n.one(other), dead())
		// On a machine of its own:
		s := newScan(t, n, parsers.PodSet{other: true})
		if err := s.loops(&n.cfg, false); !errors.Is(err, errDevice) || !strings.Contains(err.Error(), "loop4 has /nowhere/f, which is not there") {
			t.Errorf("%v", err)
		}
	})
	t.Run("cannot be read", func(t *testing.T) {
		must(t, os.Remove(n.path("block/loop1/loop/backing_file")))
		n.mkdir("block/loop1/loop/backing_file")
		check(t, n.one(other), facts{policy.FactInUse: policy.Unknown})
	})
}

// loopOf makes a loop device of a file until the test ends, and returns a directory in which it
// is the only block device.
func loopOf(t *testing.T, n *testNode, file string) (sysBlock, device string) {
	t.Helper()
	device = testkit.Loop(t, file)
	name := filepath.Base(device)
	n.symlink("/sys/block/"+name, "block-"+name+"/"+name)
	return n.path("block-" + name), device
}

// TestLoopByInode: the path of a loop device that was set up in a mount namespace that has ended,
// or on a bind mount that was detached, begins nowhere. The device tells the inode.
func TestLoopByInode(t *testing.T) {
	needRoot(t)
	if !inNamespace(t) {
		return
	}
	n, uid, other := newNode(t), newUID(), newUID()
	dir := n.pod(uid) + "/volumes/kubernetes.io~empty-dir/d"
	n.write(dir+"/f", strings.Repeat("x", 8192))
	n.mkdir(n.pod(other)+"/volumes/kubernetes.io~empty-dir/d", "bound")
	must(t, unix.Mount(n.path(dir), n.path("bound"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(n.path("bound"), unix.MNT_DETACH) }) // where there is no device
	var device string
	n.cfg.SysBlockDir, device = loopOf(t, n, n.path("bound/f"))
	must(t, unix.Unmount(n.path("bound"), unix.MNT_DETACH))
	text, err := os.ReadFile(n.cfg.SysBlockDir + "/" + filepath.Base(device) + "/loop/backing_file")
	must(t, err)
	if string(text) != "/f\n" {
		t.Fatalf("the path of the device is %q", text)
	}
	e := n.one(uid)
	check(t, e, but(facts{policy.FactInUse: policy.Yes}))
	wantDetail(t, e.Facts[policy.FactInUse], "the loop device "+device+" has /f; losetup -d "+device)
	check(t, n.one(other), dead())
	t.Run("not all files were looked at", func(t *testing.T) {
		n.most = 1
		n.write(n.pod(other)+"/volumes/kubernetes.io~empty-dir/d/1", "x")
		n.write(n.pod(other)+"/volumes/kubernetes.io~empty-dir/d/2", "x")
		check(t, n.one(other), facts{policy.FactInUse: policy.Unknown})
		n.most = 0
	})
	t.Run("the device cannot be opened", func(t *testing.T) {
		n.cfg.DevDir = n.path("dev")
		s := newScan(t, n, parsers.PodSet{uid: true})
		if err := s.loops(&n.cfg, false); !errors.Is(err, errDevice) {
			t.Errorf("%v", err)
		}
	})
}
