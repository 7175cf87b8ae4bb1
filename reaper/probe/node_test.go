package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestMayEnforce(t *testing.T) {
	const initial = procfs.InitialPIDNamespace
	const (
		jail     = "20 1 8:1 /jail / rw - ext4 /dev/sda1 rw\n"
		hostRoot = "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
		hostPods = "21 20 8:2 / /var/lib/kubelet rw shared:9 - ext4 /dev/sdb1 rw\n"
		private  = "40 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		slave    = "40 1 8:1 / / rw master:1 - ext4 /dev/sda1 rw\n"
		peer     = "40 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
		stranger = "40 1 8:1 / / rw shared:5 master:7 - ext4 /dev/sda1 rw\n"
	)
	kubelet := policy.Fact{Truth: policy.Yes}
	cases := []struct {
		name      string
		pidNS     string
		kubelet   policy.Fact
		own, host string
		self      bool
		want      policy.Truth
		detail    string
	}{
		{"on the host", initial, policy.Fact{}, hostRoot + hostPods, hostRoot + hostPods, false, policy.Yes, "of PID 1"},
		{"slave", initial, policy.Fact{}, slave, hostRoot, false, policy.Yes, "a slave"},
		{"peer", initial, policy.Fact{}, peer, hostRoot, false, policy.Yes, "a slave"},
		{"private", initial, policy.Fact{}, private, hostRoot, false, policy.No, "later mounts"},
		{"slave of another", initial, policy.Fact{}, stranger, hostRoot, false, policy.No, "later mounts"},
		{"slave of what the host does not share", initial, policy.Fact{}, slave, strings.Replace(hostRoot, "shared:1", "master:1", 1), false, policy.No, ""},
		{"another root", initial, policy.Fact{}, jail, strings.Replace(hostRoot, " / / ", " / /jail ", 1), false, policy.No, ""},
		{"a slave in a private root", initial, policy.Fact{}, strings.Replace(slave, " / / ", " / /k ", 1) + private, hostRoot, false, policy.Yes, "a slave"},
		{"own PID namespace", "pid:[4026532999]", policy.Fact{}, hostRoot, hostRoot, false, policy.No, "PID namespace"},
		{"own PID namespace with a kubelet", "pid:[4026532999]", kubelet, hostRoot, hostRoot, false, policy.Yes, ""},
		{"self", "pid:[4026532999]", policy.Fact{}, private, hostRoot, true, policy.Yes, "self"},
		{"no PID namespace link", "", policy.Fact{}, hostRoot, hostRoot, false, policy.Unknown, "PID namespace"},
		{"no PID 1", initial, policy.Fact{}, hostRoot, "", false, policy.Unknown, "PID 1"},
		{"PID 1 with junk", initial, policy.Fact{}, hostRoot, "junk\n", false, policy.Unknown, "PID 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.cfg.NodeNamespacesSelf = c.self
			files := map[string]string{"self": c.own}
			if c.host != "" {
				files["1"] = c.host
			}
			n.cfg.ProcDir = testkit.ProcMounts(t, files)
			if c.pidNS != "" {
				must(t, os.MkdirAll(filepath.Join(n.cfg.ProcDir, "self/ns"), 0o755))
				must(t, os.Symlink(c.pidNS, filepath.Join(n.cfg.ProcDir, "self/ns/pid")))
			}
			id, err := strconv.ParseUint(c.own[:strings.Index(c.own, " ")], 10, 64)
			must(t, err)
			f := n.probe().mayEnforce(c.kubelet, mountOf{id: id})
			if f.Truth != c.want {
				t.Errorf("may enforce is %+v, want %s", f, c.want)
			}
			wantDetail(t, f, c.detail)
		})
	}
}

// TestLaterMount: what the guard stands for, with real mounts. In a private mount namespace a mount that
// the node makes later is not seen, and removing its mount point takes it away from the node. Where
// the mount of the pods is a slave the kernel refuses, whatever the root is.
func TestLaterMount(t *testing.T) {
	if !inNamespace(t) { // its root is private
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
				t.Errorf("the canary behind the node's mount lives: %v", lives)
			}
			if err == nil {
				must(t, unix.Unmount(n.Path("kubelet/pods/"+c.name+"/volume"), 0))
			}
			own, asked := *n, n.cfg
			asked.NodeNamespacesSelf, asked.ProcDir = false, testkit.ProcMounts(t, texts)
			own.cfg = asked
			must(t, os.MkdirAll(filepath.Join(asked.ProcDir, "self/ns"), 0o755))
			must(t, os.Symlink(procfs.InitialPIDNamespace, filepath.Join(asked.ProcDir, "self/ns/pid")))
			if f := own.probe().mayEnforce(policy.Fact{}, at); f.Truth != c.may {
				t.Errorf("may enforce is %+v, want %s", f, c.may)
			}
		})
	}
}

// apart opens a directory in a mount namespace of its own, with that propagation of kubelet. When later
// is closed it removes the directory volume in it there. It returns the mounts of both namespaces.
func (n *testNode) apart(t *testing.T, propagate uintptr, rel string, removed chan<- error) (later chan struct{}, texts map[string]string, at mountOf) {
	t.Helper()
	later, texts = make(chan struct{}), map[string]string{}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
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

// TestMayEnforceHere asks in real namespaces: a private one of our own must not enforce.
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

// TestFileMountIsSeen: a file bound over a pod's file is a mount, not its size.
func TestFileMountIsSeen(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Write("elsewhere", strings.Repeat("x", 1<<20))
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~nfs/v/f", "")
	n.mount("elsewhere", n.PodDir(uid)+"/volumes/kubernetes.io~nfs/v/f")
	n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(1, "/", "/")}) // mountinfo does not tell
	e := n.one(uid)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	for _, r := range e.Residue {
		if r.Bytes >= 1<<20 {
			t.Errorf("the mounted file is counted: %+v", r)
		}
	}
}

// TestMountPointSeenOnlyByTheWalk: what openat2 refuses to cross is a mount, whatever
// mountinfo said a moment before.
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

func TestChildrenAreReaped(t *testing.T) {
	// The helper itself: a child that does not start is a skip or a failure, never silence.
	if pid := child(t, &syscall.SysProcAttr{}, "/", ""); pid <= 0 {
		t.Errorf("the child has PID %d", pid)
	}
}

// TestReadMounts: a user's mount whose path is longer than a block takes away nothing from the others.
func TestReadMounts(t *testing.T) {
	text := "21 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n" +
		fmt.Sprintf("22 21 0:9 / /home/%s rw - fuse f rw\n", strings.Repeat("d/", 1<<20)) +
		"23 21 8:1 /a /my\\040disk rw,relatime master:7 - ext4 /dev/sda1 rw\n"
	got, err := readMounts(testkit.WriteText(t, t.TempDir()+"/mountinfo", text))
	must(t, err)
	if len(got) != 3 || got[0].ID != 21 || !slices.Equal(got[0].Peers, []string{"shared:1", "master:2"}) || len(got[1].Peers) != 0 ||
		got[2].Point != "/my disk" || !slices.Equal(got[2].Peers, []string{"master:7"}) || len(got[1].Point) > 32<<10 {
		t.Errorf("%d mounts: %.300v", len(got), got)
	}
	if _, err := readMounts(testkit.WriteText(t, t.TempDir()+"/mountinfo", "x 1 8:1 / / rw - ext4 d rw\n")); err == nil {
		t.Error("a mount without a number is read")
	}
}
