package probe

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMayEnforce checks that what is read of both namespaces reaches the rule, and that unreadable ones are unknown.
func TestMayEnforce(t *testing.T) {
	const (
		initial = procfs.InitialPIDNamespace
		host    = "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
		slave   = "40 1 8:1 / / rw master:1 - ext4 /dev/sda1 rw\n"
		private = "40 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	)
	for name, c := range map[string]struct {
		pidNS, own, host string
		want             policy.Truth
		detail           string
	}{
		"slave":                 {initial, slave, host, policy.Yes, "a slave"},
		"private":               {initial, private, host, policy.No, "later mounts"},
		"own PID namespace":     {"pid:[4026532999]", slave, host, policy.No, "PID namespace"},
		"no PID namespace link": {"", slave, host, policy.Unknown, "PID namespace"},
		"no PID 1":              {initial, slave, "", policy.Unknown, "PID 1"},
		"PID 1 with junk":       {initial, slave, "junk\n", policy.Unknown, "PID 1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.enforces(c.pidNS, map[string]string{"self": c.own, "1": c.host})
			f := n.probe().mayEnforce(policy.Fact{}, mountOf{id: 40})
			if wantDetail(t, f, c.detail); f.Truth != c.want {
				t.Errorf("may enforce is %+v, want %s", f, c.want)
			}
		})
	}
}

// enforces judges the node's namespaces in a proc directory with these mounts.
func (n *testNode) enforces(pidNS string, mountinfo map[string]string) {
	n.T.Helper()
	maps.DeleteFunc(mountinfo, func(_, text string) bool { return text == "" })
	n.cfg.NodeNamespacesSelf, n.cfg.ProcDir = false, testkit.ProcMounts(n.T, mountinfo)
	must(n.T, os.MkdirAll(filepath.Join(n.cfg.ProcDir, "self/ns"), 0o755))
	if pidNS != "" {
		must(n.T, os.Symlink(pidNS, filepath.Join(n.cfg.ProcDir, "self/ns/pid")))
	}
}

// TestLaterMount shows the loss that the guard prevents, with real mounts. From a private mount namespace a mount
// that the node makes later is invisible, and the removal of its mount point detaches it on the node. If the mount of
// the pods is a slave, the kernel refuses, whatever the root is.
func TestLaterMount(t *testing.T) {
	if !inNamespace(t) { // the test's root is private
		return
	}
	n := newNode(t)
	n.mount("", "kubelet")
	must(t, unix.Mount("", n.Path("kubelet"), "", unix.MS_SHARED, ""))
	for _, c := range []struct {
		name      string
		propagate uintptr
		removes   error
		may       policy.Truth
	}{
		{"private", unix.MS_PRIVATE, nil, policy.No},
		{"slave", unix.MS_SLAVE, unix.EBUSY, policy.Yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.Mkdir("kubelet/pods/" + c.name + "/volume")
			removed := make(chan error)
			later, texts, at := n.apart(t, c.propagate, "kubelet/pods/"+c.name, removed)
			must(t, unix.Mount("later", n.Path("kubelet/pods/"+c.name+"/volume"), "tmpfs", 0, ""))
			n.Write("kubelet/pods/"+c.name+"/volume/canary", "x")
			close(later)
			if err := <-removed; !errors.Is(err, c.removes) {
				t.Errorf("removing the mount point gives %v, want %v", err, c.removes)
			}
			_, err := os.Stat(n.Path("kubelet/pods/" + c.name + "/volume/canary"))
			if lives := err == nil; lives != (c.may == policy.Yes) {
				t.Errorf("the canary behind the node's mount exists: %v", lives)
			}
			if err == nil {
				must(t, unix.Unmount(n.Path("kubelet/pods/"+c.name+"/volume"), 0))
			}
			own := *n
			own.enforces(procfs.InitialPIDNamespace, texts)
			if f := own.probe().mayEnforce(policy.Fact{}, at); f.Truth != c.may {
				t.Errorf("may enforce is %+v, want %s", f, c.may)
			}
		})
	}
}

// apart opens a directory in a mount namespace of its own with the given propagation of kubelet. When later is
// closed, it removes the directory's subdirectory "volume" there. It returns the mounts of both namespaces.
func (n *testNode) apart(t *testing.T, propagate uintptr, rel string, removed chan<- error) (later chan struct{}, texts map[string]string, at mountOf) {
	t.Helper()
	later, texts = make(chan struct{}), map[string]string{}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with its namespace
		fail := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if fail == nil {
			fail = unix.Mount("", n.Path("kubelet"), "", propagate, "")
		}
		var dir *os.File
		if fail == nil {
			dir, fail = os.Open(n.Path(rel))
		}
		if fail != nil {
			ready <- fail
			return
		}
		defer func() { _ = dir.Close() }() // only read
		text, err := os.ReadFile("/proc/thread-self/mountinfo")
		texts["self"], at = string(text), askMount(int(dir.Fd()))
		ready <- err
		<-later
		removed <- unix.Unlinkat(int(dir.Fd()), "volume", unix.AT_REMOVEDIR)
	}()
	must(t, <-ready)
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	must(t, err)
	texts["1"] = string(text)
	return later, texts, at
}

// TestMayEnforceHere checks in real namespaces that a process in a private one must not enforce.
func TestMayEnforceHere(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	n.cfg.NodeNamespacesSelf = false
	if f := n.look().Node.MayEnforce; f.Truth == policy.Yes {
		t.Errorf("a private mount namespace may enforce: %+v", f)
	}
}

func TestFree(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	n.mount("", "kubelet")
	n.Mkdir("kubelet/pods")
	before := n.look().Node
	if before.FreeBytes < 0.9 || before.FreeBytes > 1 || before.FreeInodes <= 0 || before.FreeInodes > 1 {
		t.Fatalf("an empty tmpfs has %v of its bytes free and %v of its inodes", before.FreeBytes, before.FreeInodes)
	}
	n.Write("kubelet/fill", strings.Repeat("x", 32<<10))
	if after := n.look().Node; after.FreeBytes > 0.6 || after.FreeInodes >= before.FreeInodes {
		t.Errorf("half full: %v of its bytes free, %v of its inodes (%v before)", after.FreeBytes, after.FreeInodes, before.FreeInodes)
	}
}

// TestFileMountIsSeen checks that a file bind-mounted on a pod's file is found as a mount and not counted as content.
func TestFileMountIsSeen(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Write("elsewhere", strings.Repeat("x", 1<<20))
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~nfs/v/f", "")
	n.mount("elsewhere", n.PodDir(uid)+"/volumes/kubernetes.io~nfs/v/f")
	n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(1, "/", "/")}) // mountinfo without the mount
	e := n.one(uid)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	for _, r := range e.Residue {
		if r.Bytes >= 1<<20 {
			t.Errorf("the mounted file is counted: %+v", r)
		}
	}
}

// TestMountPointSeenOnlyByTheWalk checks that what openat2 refuses to cross is a mount, even if mountinfo did not
// have it a moment before.
func TestMountPointSeenOnlyByTheWalk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid := newUID()
			n.mount("", n.PodDir(uid)+"/volumes/kubernetes.io~nfs/v/deep/er")
			n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(1, "/", "/")})
			e := n.one(uid)
			check(t, e, facts{policy.FactMounted: policy.Yes, policy.FactOwnMount: policy.No})
			wantDetail(t, e.Facts[policy.FactMounted], "volumes/kubernetes.io~nfs/v/deep/er")
			if got := rows(e); got != ". skeleton, volumes/kubernetes.io~nfs/v data partial" {
				t.Errorf("residue is %s", got)
			}
		})
	}
}

// TestReadMounts checks that a mount whose path is longer than a block does not hide the others.
func TestReadMounts(t *testing.T) {
	text := "21 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n" +
		fmt.Sprintf("22 21 0:9 / /home/%s rw - fuse f rw\n", strings.Repeat("d/", 1<<20)) +
		"23 21 8:1 /a /my\\040disk rw,relatime master:7 - ext4 /dev/sda1 rw\n"
	got, err := mountsOf(testkit.ProcMounts(t, map[string]string{"1": text}), "1")
	must(t, err)
	if len(got) != 3 || got[0].ID != 21 || !slices.Equal(got[0].Peers, []string{"shared:1", "master:2"}) || len(got[1].Peers) != 0 ||
		got[2].Point != "/my disk" || !slices.Equal(got[2].Peers, []string{"master:7"}) || len(got[1].Point) > 64<<10 {
		t.Errorf("%d mounts: %.300v", len(got), got)
	}
	if _, err := mountsOf(testkit.ProcMounts(t, map[string]string{"1": "x 1 8:1 / / rw - ext4 d rw\n"}), "1"); err == nil {
		t.Error("a mount without a number is read")
	}
}
