package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMountInAnotherNamespaceOnly checks that a mount that is not in our own mountinfo is found.
func TestMountInAnotherNamespaceOnly(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid, other := newUID(), newUID()
			vol := n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/tmp"
			n.Mkdir(vol, n.PodDir(other))
			pid := child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "", "mount -t tmpfs tmpfs '"+n.Path(vol)+"'")
			own, err := os.ReadFile("/proc/self/mountinfo")
			must(t, err)
			if strings.Contains(string(own), string(uid)) {
				t.Fatal("the mount is in our own namespace, so the test proves nothing")
			}
			look := n.look()
			check(t, find(t, look, uid), facts{policy.FactMounted: policy.Yes})
			wantDetail(t, find(t, look, uid).Facts[policy.FactMounted], fmt.Sprintf("mounted at %s (tmpfs) in the mount namespace of PID %d (sh)", n.Path(vol), pid))
			check(t, find(t, look, other), dead())
		})
	}
}

// TestContainerBind checks that a container's bind mount of an emptyDir is found. Only field 4 of the container's
// mountinfo shows it, also after the source was removed.
func TestContainerBind(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	// On a file system of its own, so that field 4 is the path from its root.
	n.mount("", "kubelet")
	n.Mkdir("kubelet/pods", "target")
	kept, removed := newUID(), newUID()
	for _, uid := range []parsers.PodUID{kept, removed} {
		vol := n.Path(n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/tmp")
		must(t, os.MkdirAll(vol, 0o755))
		child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "", fmt.Sprintf("mount --bind '%s' '%s'", vol, n.Path("target")))
	}
	must(t, os.Remove(n.Path(n.PodDir(removed)+"/volumes/kubernetes.io~empty-dir/tmp")))
	look := n.look()
	for _, uid := range []parsers.PodUID{kept, removed} {
		e := find(t, look, uid)
		check(t, e, but(facts{policy.FactMounted: policy.Yes}))
		wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path("target")+", from /pods/"+string(uid))
	}
}

// jailEnv makes a copy of the test binary change its root and wait for the end of its input.
const jailEnv = "ORPHAN_REAPER_TEST_JAIL"

// TestJail runs in a jail; in a normal test run it does nothing.
func TestJail(t *testing.T) {
	dir := os.Getenv(jailEnv)
	if dir == "" {
		return
	}
	if at := os.Getenv(jailEnv + "_MOUNT"); at != "" {
		must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		must(t, unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k"))
	}
	must(t, unix.Chroot(dir))
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// TestZombies checks that EINVAL from a zombie's mountinfo is no doubt.
func TestZombies(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	// WNOWAIT: wait for its end and keep it as a zombie.
	must(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", cmd.Process.Pid)); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("a zombie's mountinfo gives %v", err)
	}
	check(t, n.one(uid), dead())
}

func TestMountsWithoutProc(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	n.cfg.ProcDir = n.Path("nowhere")
	look := n.look()
	check(t, find(t, look, uid), but(facts{
		policy.FactMounted: policy.Unknown, policy.FactStaged: policy.Unknown, policy.FactInUse: policy.Unknown,
	}))
	if !strings.Contains(strings.Join(look.Errors, "\n"), "cannot list processes") {
		t.Errorf("the look does not report the unreadable part: %q", look.Errors)
	}
}

// TestMountsUnderChurn checks that the namespaces of processes that start and end during the scan are not errors.
func TestMountsUnderChurn(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		runs := 0
		for ; ctx.Err() == nil; runs++ {
			cmd := exec.CommandContext(ctx, "/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
			_ = cmd.Run()
		}
		done <- runs
	}()
	p := n.probe()
	for range 30 {
		if f := p.Mounts(t.Context(), []parsers.PodUID{uid})[uid]; f.Truth != policy.No {
			t.Errorf("mounted is %+v, want no", f)
		}
	}
	stop()
	if runs := <-done; runs == 0 {
		t.Error("no process started and ended, so the test proves nothing")
	}
}

// TestHungFUSE mounts a FUSE file system whose server never answers below one pod and as another pod's directory. The
// look must return, report the mount and read the other pods.
func TestHungFUSE(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			below, itself, other := newUID(), newUID(), newUID()
			vol := n.PodDir(below) + "/volumes/kubernetes.io~csi/pv-1/mount"
			n.Mkdir(vol, n.PodDir(itself), n.PodDir(other))
			release := hungFUSE(t, n.Path(vol))
			hungFUSE(t, n.Path(n.PodDir(itself)))
			// A stat, as in a careless look, hangs.
			stat := make(chan error, 1)
			go func() {
				var st unix.Stat_t
				stat <- unix.Stat(n.Path(vol), &st)
			}()
			look := n.look()
			check(t, find(t, look, below), facts{policy.FactMounted: policy.Yes, policy.FactDirectory: policy.Yes})
			wantDetail(t, find(t, look, below).Facts[policy.FactMounted], "(fuse)")
			check(t, find(t, look, itself), facts{policy.FactMounted: policy.Yes, policy.FactContent: policy.Unknown})
			check(t, find(t, look, other), dead())
			select {
			case err := <-stat:
				t.Errorf("stat returned %v: the file system does not hang, so the test proves nothing", err)
			default:
			}
			release()
			if err := <-stat; err == nil {
				t.Error("stat of a file system without a server gives no error")
			}
		})
	}
}

// hungFUSE mounts a FUSE file system without a server; release ends all who wait for it.
func hungFUSE(t *testing.T, dir string) (release func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		skipWithout(t, "/dev/fuse", err)
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		_ = unix.Close(fd)
		skipWithout(t, "FUSE", err)
	}
	closed := false
	release = func() {
		if !closed {
			closed = true
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(func() {
		release()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return release
}

// TestHungParts puts a hung file system at each part of the look: that part is Unknown, the others are read, and the
// next look does not wait for it again.
func TestHungParts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid), "kubelet/orphan-reaper")
	n.patience = 5 * time.Second // the other parts must be read within it, also on a busy machine
	release := []func(){hungFUSE(t, n.cfg.CgroupRoot), hungFUSE(t, n.cfg.QuarantineDir)}
	p := n.probe()
	for _, words := range []string{bounded.ErrHangs.Error(), bounded.ErrStuck.Error()} {
		look, err := p.Look(t.Context(), nil, nil)
		must(t, err)
		e := find(t, look, uid)
		check(t, e, but(facts{policy.FactCgroup: policy.Unknown, policy.FactStaged: policy.Unknown}))
		wantDetail(t, e.Facts[policy.FactCgroup], words)
	}
	if stuck := p.guard.Stuck(); stuck != len(release) {
		t.Errorf("%d goroutines are stuck after two looks, want one for each hung part, %d", stuck, len(release))
	}
	for _, f := range release {
		f()
	}
	t.Run("root directory", func(t *testing.T) {
		n := newNode(t)
		n.patience = 100 * time.Millisecond
		hungFUSE(t, n.cfg.RootDir)
		if _, err := n.probe().Look(t.Context(), nil, nil); !errors.Is(err, bounded.ErrHangs) {
			t.Errorf("the look of a hung root directory gives %v", err)
		}
	})
}

// TestOverlayText checks that an overlay keeps the pod that its mount point or options name, and that the result for
// one pod is not reused for another.
func TestOverlayText(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, overlay := range map[string]func(n *testNode, vol string) (at, opts string){
		"options": func(n *testNode, vol string) (string, string) {
			return n.Path("over"), "lowerdir=" + n.Path(vol+"/l1") + ",upperdir=" + n.Path(vol+"/up") + ",workdir=" + n.Path(vol+"/work")
		},
		"lower layer only": func(n *testNode, vol string) (string, string) {
			return n.Path("over"), "lowerdir=" + n.Path(vol+"/l1") + ":" + n.Path("l2")
		},
		"relative layers, mounted in the pod": func(n *testNode, vol string) (string, string) {
			return n.Path(vol + "/over"), "lowerdir=l1,upperdir=up,workdir=work"
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, first, second := newNode(t), newUID(), newUID()
			vol := n.PodDir(second) + "/volumes/kubernetes.io~empty-dir/d"
			n.Mkdir(vol+"/l1", vol+"/up", vol+"/work", vol+"/over", n.PodDir(first)+"/volumes", "over", "l2")
			at, opts := overlay(n, vol)
			t.Chdir(n.Path(vol))
			must(t, unix.Mount("o", at, "overlay", 0, opts))
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
			t.Chdir(n.Base)
			p := n.probe()
			for range 2 {
				for uid, want := range map[parsers.PodUID]policy.Truth{first: policy.No, second: policy.Yes} {
					if f := p.Mounts(t.Context(), []parsers.PodUID{uid})[uid]; f.Truth != want {
						t.Errorf("look of %s alone: %v, want %v", uid, f, want)
					}
				}
			}
		})
	}
}

// TestAgent checks that a mount that only another pod's process has is reported with that pod, since only its
// restart helps. A mount of the node or of the pod's own container is reported as before.
func TestAgent(t *testing.T) {
	uid, agent, unnamed := newUID(), newUID(), newUID()
	mount := testkit.MountLine(61, "/", "/host/var/lib/kubelet/pods/"+string(uid)+"/volumes/v")
	slice := func(pod string) string {
		return "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-0123.scope\n"
	}
	for name, c := range map[string]struct{ one, other, cgroup, want string }{
		"an agent's by cgroupfs":  {"", mount, "3:cpu:/x\n4:memory:/kubepods/burstable/pod" + string(agent) + "/0123\n", "of pod " + string(agent)},
		"of a pod without a name": {"", mount, slice(string(unnamed)), "of pod " + string(unnamed) + ": restart"},
		"the node's":              {mount, mount, slice(string(agent)), ""},
		"its own":                 {"", mount, slice(string(uid)), ""},
		"a service's":             {"", mount, "0::/system.slice/x.service\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Mkdir(n.PodDir(uid))
			n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(20, "/", "/") + c.one, "7": testkit.MountLine(60, "/", "/") + c.other})
			must(t, os.WriteFile(filepath.Join(n.cfg.ProcDir, "7", "cgroup"), []byte(c.cgroup), 0o600))
			f := n.one(uid).Facts[policy.FactMounted]
			if f.Truth != policy.Yes || strings.Contains(f.Detail, "restart that pod") != (c.want != "") || !strings.Contains(f.Detail, c.want) {
				t.Errorf("mounted is %+v, want %q in it", f, c.want)
			}
		})
	}
}
