package openfiles

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

// TestLoopDevice checks that a loop device's file counts as in use, although no process holds it. Here no device can
// be asked, so the path decides.
func TestLoopDevice(t *testing.T) {
	n, uid, device, other := newNode(t), newUID(), newUID(), newUID()
	n.Mkdir(n.PodDir(other), n.PodDir(device), "block/loop0", "block/sda/loop")
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/disk", "x")
	n.Write("x/"+string(other)+"/disk", "x")
	for name, path := range map[string]string{
		"loop1": n.Path(n.PodDir(uid)) + "/volumes/kubernetes.io~empty-dir/d/disk",
		"loop2": n.Path("x/" + string(other) + "/disk"),
		"loop3": n.Path("kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv/" + string(device)),
		"sda":   n.Path(n.PodDir(other)) + "/no loop device",
	} {
		n.Write("block/"+name+"/loop/backing_file", path+"\n")
	}
	n.SysBlockDir, n.DevDir = n.Path("block"), n.Path("dev")
	a := n.read()
	for _, uid := range []parsers.PodUID{uid, device} {
		n.want(a, uid, policy.Yes, "losetup -d "+n.Path("dev/loop"))
	}
	n.unused(a, other)
	t.Run("a file that is not there", func(t *testing.T) {
		n.Write("block/loop4/loop/backing_file", "/nowhere/f\n")
		n.unused(n.read(), other)
		// As on a separate machine:
		s := n.scan(other)
		if err := s.loops(false); !errors.Is(err, errDevice) || !strings.Contains(err.Error(), "loop4 has /nowhere/f, which is not there") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a file that only the node has, seen from a container", func(t *testing.T) {
		snap := n.Path("core20.snap")
		n.Write("core20.snap", "x")
		n.Write("snaps/loop0/loop/backing_file", snap+"\n")
		n.Mkdir("container", "proc/1")
		must(t, os.Symlink("/", n.Path("proc/1/root")))
		s := n.scan(other)
		was := *s.Reader
		defer func() { *s.Reader = was }()
		*s.Reader = Reader{
			ProcDir: n.Path("proc"), SysBlockDir: n.Path("snaps"), DevDir: n.DevDir, Open: n.Open, Guard: n.Guard, ownRoot: n.Path("container"),
		}
		if err := s.loops(false); err != nil || len(s.pods)+len(s.doubts) > 0 {
			t.Errorf("%v, %v, %v", err, s.pods, s.doubts)
		}
		must(t, os.Remove(n.Path("proc/1/root"))) // PID 1 cannot be read
		if err := s.loops(false); !errors.Is(err, errDevice) {
			t.Errorf("%v", err)
		}
	})
	t.Run("cannot be read", func(t *testing.T) {
		must(t, os.Remove(n.Path("block/loop1/loop/backing_file")))
		n.Mkdir("block/loop1/loop/backing_file")
		n.want(n.read(), other, policy.Unknown, "")
	})
}

// loopOf attaches a loop device to a file until the test ends, and returns a directory that contains only that
// device.
func loopOf(t *testing.T, n *node, file string) (sysBlock, device string) {
	t.Helper()
	device = testkit.Loop(t, file)
	name := filepath.Base(device)
	n.Mkdir("block-" + name)
	must(t, os.Symlink("/sys/block/"+name, n.Path("block-"+name+"/"+name)))
	return n.Path("block-" + name), device
}

// TestLoopByInode checks that the inode of a loop device's file is read from the device: its path is useless if it
// was set up in a mount namespace that has ended, or on a detached bind mount.
func TestLoopByInode(t *testing.T) {
	testkit.NeedRoot(t)
	if !testkit.InNamespace(t) {
		return
	}
	n, uid, other := newNode(t), newUID(), newUID()
	dir := n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/d"
	n.Write(dir+"/f", strings.Repeat("x", 8192))
	n.Mkdir(n.PodDir(other)+"/volumes/kubernetes.io~empty-dir/d", "bound")
	must(t, unix.Mount(n.Path(dir), n.Path("bound"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(n.Path("bound"), unix.MNT_DETACH) }) // in case attaching fails
	var device string
	n.SysBlockDir, device = loopOf(t, n, n.Path("bound/f"))
	must(t, unix.Unmount(n.Path("bound"), unix.MNT_DETACH))
	text, err := os.ReadFile(n.SysBlockDir + "/" + filepath.Base(device) + "/loop/backing_file")
	must(t, err)
	if string(text) != "/f\n" {
		t.Fatalf("the path of the device is %q", text)
	}
	n.want(n.read(), uid, policy.Yes, "the loop device "+device+" has /f; remove it with losetup -d "+device)
	n.unused(n.read(), other)
	t.Run("the device cannot be opened", func(t *testing.T) {
		n.DevDir = n.Path("dev")
		s := n.scan(uid)
		if err := s.loops(false); !errors.Is(err, errDevice) {
			t.Errorf("%v", err)
		}
	})
}
