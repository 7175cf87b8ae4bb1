package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// oldKernel is what a kernel before 6.12 says.
func oldKernel(int) ([]byte, error) { return nil, noNamespaces(unix.EINVAL) }

// notEntered is what a kernel says to a service without CAP_SYS_ADMIN.
func notEntered(int) (int, error) { return -1, unix.EPERM }

// needByFile skips where the kernel lists no mount namespace by its file.
func needByFile(t *testing.T) {
	t.Helper()
	fd, err := openNamespace(unix.AT_FDCWD, "/proc/self/ns/mnt")
	must(t, err)
	defer beneath.Close(fd)
	if _, err := nsMounts(fd); err != nil {
		skipWithout(t, "Linux 6.13", err)
	}
}

func (n *testNode) oneWith(uid parsers.PodUID, byFile func(int) ([]byte, error)) policy.Evidence {
	n.t.Helper()
	p := n.probe()
	p.byFile, p.enter = byFile, notEntered
	look, err := p.Look(n.t.Context(), nil, nil)
	must(n.t, err)
	return find(n.t, look, uid)
}

// oneEntered looks on a kernel that lists no namespace by its file, by entering it.
func (n *testNode) oneEntered(uid parsers.PodUID) policy.Evidence {
	n.t.Helper()
	p := n.probe()
	p.byFile = oldKernel
	look, err := p.Look(n.t.Context(), nil, nil)
	must(n.t, err)
	return find(n.t, look, uid)
}

// TestHiddenNamespaces: a process alone in its mount namespace, with a root of its own, shows
// next to nothing of it. A kernel that lists it by its file shows what is mounted outside of
// that root; an older one leaves every pod unknown, and says whose root and which.
func TestHiddenNamespaces(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	needByFile(t)
	for name, c := range map[string]struct {
		flags   uintptr
		onMount bool
		removed bool
		words   string
	}{
		"chroot":                     {words: "/jail, are hidden"},
		"chroot onto a mount":        {onMount: true, words: "/jail, are hidden"},
		"its root was removed":       {removed: true, words: "/jail (which was removed while the process had it), are hidden"},
		"chroot in a user namespace": {flags: unix.CLONE_NEWUSER, words: "/jail, are hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			n, held, other := newNode(t), newUID(), newUID()
			vol := n.pod(held) + "/volumes/kubernetes.io~empty-dir/tmp"
			n.mkdir(vol, n.pod(other), "jail")
			if c.onMount {
				n.mount("", "jail")
			}
			check(t, n.one(held), dead())
			must(t, os.Chmod(n.dir, 0o755)) // a user namespace's root is nobody here
			jailedWith(t, c.flags|unix.CLONE_NEWNS, n.path("jail"), n.path(vol))
			if c.removed {
				must(t, os.Remove(n.path("jail")))
			}
			e := n.oneWith(held, nsMounts)
			check(t, e, facts{policy.FactMounted: policy.Yes})
			wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.path(vol)+" (tmpfs)")
			check(t, n.oneWith(other, nsMounts), dead())
			e = n.oneWith(held, oldKernel)
			check(t, e, but(facts{policy.FactMounted: policy.Unknown, policy.FactStaged: policy.Unknown}))
			wantDetail(t, e.Facts[policy.FactMounted], c.words)
			wantDetail(t, e.Facts[policy.FactMounted], "lists no mount namespace by its file")
			// A person's scan has the capabilities for entering it.
			e = n.oneEntered(held)
			check(t, e, facts{policy.FactMounted: policy.Yes})
			wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.path(vol)+" (tmpfs)")
			check(t, n.oneEntered(other), dead())
		})
	}
	t.Run("another process has the namespace's root", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.mkdir(n.pod(uid), "jail")
		jailedWith(t, 0, n.path("jail"), "")
		check(t, n.oneWith(uid, oldKernel), dead())
	})
}

// jailedWith runs TestJail until the test ends: it mounts a tmpfs at the second path, in the
// namespaces of the flags, before it changes its root.
func jailedWith(t *testing.T, flags uintptr, root, mount string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestJail$")
	cmd.Env = append(os.Environ(), jailEnv+"="+root, jailEnv+"_MOUNT="+mount)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	untilReady(t, cmd)
}

// TestPinnedNamespace: no process is in the mount namespace, and a bind of its file holds it.
func TestPinnedNamespace(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	needByFile(t)
	n, held, other := newNode(t), newUID(), newUID()
	vol := n.pod(held) + "/volumes/kubernetes.io~empty-dir/tmp"
	n.mkdir(vol, n.pod(other))
	n.write("pin here", "")
	n.pinned("pin here", "mount -t tmpfs tmpfs '"+n.path(vol)+"'")
	e := n.oneWith(held, nsMounts)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.path(vol)+" (tmpfs) in the mount namespace that "+n.path("pin here")+" holds")
	check(t, n.oneWith(other, nsMounts), dead())
	e = n.oneWith(held, oldKernel)
	check(t, e, dead()) // lost without the guard; where PID 1 shows the bind it is unknown, see below
	if o := e.Facts[policy.FactMounted].Origin; !strings.Contains(o, "1 without a process not read") {
		t.Errorf("what was not read is not told: %s", o)
	}
	check(t, n.oneEntered(held), facts{policy.FactMounted: policy.Yes})
	check(t, n.oneEntered(other), dead())
	t.Run("a file server that hangs is not asked", func(t *testing.T) {
		release := hungFUSE(t, n.path(n.pod(other)))
		defer release()
		check(t, n.oneWith(held, nsMounts), facts{policy.FactMounted: policy.Yes})
	})
}

// pinned runs a script in a mount namespace of its own, binds the file of that, and lets the
// process end. A namespace may only be bound in an older one, and since 6.18 the kernel may
// take one that was made later on another processor for older: then it is tried again.
func (n *testNode) pinned(at, script string) {
	n.t.Helper()
	err := unix.EINVAL
	for range 50 {
		if err = n.tryPinned(at, script); err == 0 {
			n.t.Cleanup(func() { _ = unix.Unmount(n.path(at), unix.MNT_DETACH) })
			return
		}
	}
	n.t.Fatal(err)
}

func (n *testNode) tryPinned(at, script string) unix.Errno {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), "/bin/sh", "-c", script+"\necho ready; read -r line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	must(n.t, err)
	out, err := cmd.StdoutPipe()
	must(n.t, err)
	must(n.t, cmd.Start())
	if k, err := out.Read(make([]byte, 16)); k == 0 {
		n.t.Fatal(err)
	}
	err = unix.Mount(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid), n.path(at), "", unix.MS_BIND, "")
	must(n.t, in.Close())
	_ = cmd.Wait() // read ends with its input
	errno, _ := errors.AsType[unix.Errno](err)
	return errno
}

// TestPinnedOnOldKernels: whose pin makes the mounts unknown where it cannot be read.
func TestPinnedOnOldKernels(t *testing.T) {
	bind := func(target string) string {
		return fmt.Sprintf("77 20 0:4 mnt:[4026532999] %s rw - nsfs nsfs rw\n", target)
	}
	for name, c := range map[string]struct {
		one, other string
		want       policy.Truth
	}{
		"none":            {"", "", policy.No},
		"bound by root":   {bind(`/run/my\040ns`), "", policy.Unknown},
		"snapd's":         {bind("/run/snapd/ns/lxd.mnt"), "", policy.No},
		"in another one":  {"", bind("/x"), policy.No},
		"another's snapd": {"", bind("/run/snapd/ns/lxd.mnt"), policy.No},
	} {
		t.Run(name, func(t *testing.T) {
			n, uid := newNode(t), newUID()
			n.cfg.ProcDir = procFixture(t, map[string]string{"1": line(20, "/", "/") + c.one, "7": line(60, "/", "/") + c.other})
			p := n.probe()
			p.byFile, p.enter = oldKernel, notEntered
			f := p.Mounts(t.Context(), []parsers.PodUID{uid})[uid]
			if f.Truth != c.want {
				t.Errorf("mounted is %+v, want %s", f, c.want)
			}
			if c.want == policy.Unknown {
				wantDetail(t, f, "bound at /run/my ns")
			}
		})
	}
}

// TestNamespaceByFile: what the kernel says of our own namespace by its file is what mountinfo says.
func TestNamespaceByFile(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	needByFile(t)
	n := newNode(t)
	odd := "odd \\ #\tname\n" + strings.Repeat("x", 200)
	n.mount("", odd)
	n.mkdir("lower", "up", "work", "over")
	must(t, unix.Mount("a source", n.path("over"), "overlay", 0, "lowerdir="+n.path("lower")+",upperdir="+n.path("up")+",workdir="+n.path("work")))
	for i := range 2 * idsAtOnce {
		must(t, unix.Mount(fmt.Sprintf("t%d", i), n.path(odd), "tmpfs", 0, "size=4k"))
	}
	t.Cleanup(func() {
		_ = unix.Unmount(n.path("over"), unix.MNT_DETACH)
		for unix.Unmount(n.path(odd), unix.MNT_DETACH) == nil {
			continue
		}
	})
	fd, err := openNamespace(unix.AT_FDCWD, "/proc/self/ns/mnt")
	must(t, err)
	defer beneath.Close(fd)
	text, err := nsMounts(fd)
	must(t, err)
	own, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	got, want := map[string]bool{}, 0
	for l := range strings.Lines(string(text)) {
		got[comparable1(t, l)] = true
	}
	for l := range strings.Lines(string(own)) {
		want++
		if !got[comparable1(t, l)] {
			t.Errorf("not in what the kernel says by the file: %q", l)
		}
	}
	if len(got) != want || want < 2*idsAtOnce {
		t.Errorf("%d mounts by the file, %d in mountinfo", len(got), want)
	}
}

// comparable1 leaves out the flags and propagation of a mount, and those of its file system.
func comparable1(t *testing.T, line string) string {
	t.Helper()
	infos, err := readMountText(line)
	must(t, err)
	m := infos[0]
	opts := strings.TrimPrefix(strings.TrimPrefix(m.VFSOptions, "rw,"), "ro,")
	return fmt.Sprint(m.ID, m.Parent, m.Major, m.Minor, m.Root, m.Mountpoint, m.FSType, m.Source, opts)
}
