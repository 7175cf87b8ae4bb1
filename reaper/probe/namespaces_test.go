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
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const byFile = true // the kernel lists a namespace by its file

// oneWith looks without CAP_SYS_ADMIN, on a kernel that can or cannot list a namespace by its file.
func (n *testNode) oneWith(uid parsers.PodUID, byFile bool) policy.Evidence {
	n.T.Helper()
	p := n.probe()
	testkit.Set(p.mounts, "noListing", !byFile)
	testkit.Set(p.mounts, "noEntering", true)
	look, err := p.Look(n.T.Context(), nil, nil)
	must(n.T, err)
	return find(n.T, look, uid)
}

// oneEntered looks on a kernel that cannot list a namespace by its file, by entering it.
func (n *testNode) oneEntered(uid parsers.PodUID) policy.Evidence {
	n.T.Helper()
	p := n.probe()
	testkit.Set(p.mounts, "noListing", true)
	look, err := p.Look(n.T.Context(), nil, nil)
	must(n.T, err)
	return find(n.T, look, uid)
}

// TestHiddenNamespaces checks a process alone in its mount namespace with a root of its own, which shows hardly any
// of its mounts. A kernel that lists the namespace by its file shows the mounts outside that root. On an older one
// every pod is unknown, with the process and its root in the detail.
func TestHiddenNamespaces(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	testkit.NeedListing(t)
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
			vol := n.PodDir(held) + "/volumes/kubernetes.io~empty-dir/tmp"
			n.Mkdir(vol, n.PodDir(other), "jail")
			if c.onMount {
				n.mount("", "jail")
			}
			check(t, n.one(held), dead())
			must(t, os.Chmod(n.Base, 0o755)) // the user namespace's root is another user here
			jailed(t, c.flags|unix.CLONE_NEWNS, n.Path("jail"), n.Path(vol))
			if c.removed {
				must(t, os.Remove(n.Path("jail")))
			}
			e := n.oneWith(held, byFile)
			check(t, e, facts{policy.FactMounted: policy.Yes})
			wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path(vol)+" (tmpfs)")
			check(t, n.oneWith(other, byFile), dead())
			e = n.oneWith(held, !byFile)
			check(t, e, but(facts{policy.FactMounted: policy.Unknown, policy.FactStaged: policy.Unknown}))
			wantDetail(t, e.Facts[policy.FactMounted], c.words)
			wantDetail(t, e.Facts[policy.FactMounted], "lists no mount namespace by its file")
			// An operator's scan has the capabilities to enter it.
			e = n.oneEntered(held)
			check(t, e, facts{policy.FactMounted: policy.Yes})
			wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path(vol)+" (tmpfs)")
			check(t, n.oneEntered(other), dead())
		})
	}
}

// TestChrootedProcess checks that a process with another root shows only the mounts below it, as paths from there,
// and a line for "/" if that root is a mount point. Other processes of the namespace show the rest.
func TestChrootedProcess(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid), "jail", "mounted")
	n.mount("", "mounted")
	for _, root := range []string{"jail", "mounted"} {
		jailed(t, 0, n.Path(root), "")
		check(t, n.oneWith(uid, !byFile), dead())
	}
}

// jailed runs TestJail until the test ends. It mounts a tmpfs at the second path, in new namespaces by the flags,
// before it changes its root.
func jailed(t *testing.T, flags uintptr, root, mount string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestJail$")
	cmd.Env = append(os.Environ(), jailEnv+"="+root, jailEnv+"_MOUNT="+mount)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	testkit.UntilReady(t, cmd)
}

// TestPinnedNamespace checks a mount namespace without a process, held by a bind mount of its file.
func TestPinnedNamespace(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	testkit.NeedListing(t)
	n, held, other := newNode(t), newUID(), newUID()
	vol := n.PodDir(held) + "/volumes/kubernetes.io~empty-dir/tmp"
	n.Mkdir(vol, n.PodDir(other))
	n.Write("pin here", "")
	n.pinned("pin here", "mount -t tmpfs tmpfs '"+n.Path(vol)+"'")
	e := n.oneWith(held, byFile)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path(vol)+" (tmpfs) in the mount namespace that "+n.Path("pin here")+" holds")
	check(t, n.oneWith(other, byFile), dead())
	e = n.oneWith(held, !byFile)
	check(t, e, dead()) // lost without the guard; unknown if PID 1 shows the bind mount, see below
	if o := e.Facts[policy.FactMounted].Origin; !strings.Contains(o, "1 without a process not read") {
		t.Errorf("the unread namespace is not reported: %s", o)
	}
	check(t, n.oneEntered(held), facts{policy.FactMounted: policy.Yes})
	check(t, n.oneEntered(other), dead())
	t.Run("a file server that hangs is not asked", func(t *testing.T) {
		release := hungFUSE(t, n.Path(n.PodDir(other)))
		defer release()
		check(t, n.oneWith(held, byFile), facts{policy.FactMounted: policy.Yes})
	})
}

// pinned runs a script in a mount namespace of its own, bind-mounts the namespace's file and lets the process end. A
// namespace may only be bound in an older one. Since Linux 6.18 a namespace made later on another processor may count
// as older, so it retries.
func (n *testNode) pinned(at, script string) {
	n.T.Helper()
	err := unix.EINVAL
	for range 50 {
		if err = n.tryPinned(at, script); err == 0 {
			n.T.Cleanup(func() { _ = unix.Unmount(n.Path(at), unix.MNT_DETACH) })
			return
		}
	}
	n.T.Fatal(err)
}

func (n *testNode) tryPinned(at, script string) unix.Errno {
	n.T.Helper()
	cmd := exec.CommandContext(n.T.Context(), "/bin/sh", "-c", script+"\necho ready; read -r line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	must(n.T, err)
	out, err := cmd.StdoutPipe()
	must(n.T, err)
	must(n.T, cmd.Start())
	if k, err := out.Read(make([]byte, 16)); k == 0 {
		n.T.Fatal(err)
	}
	err = unix.Mount(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid), n.Path(at), "", unix.MS_BIND, "")
	must(n.T, in.Close())
	_ = cmd.Wait() // "read" ends with its input
	errno, _ := errors.AsType[unix.Errno](err)
	return errno
}

// TestNamespaceHeldByDescriptor checks a mount namespace without a process and bind mount, held by an open file of
// it.
func TestNamespaceHeldByDescriptor(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	testkit.NeedListing(t)
	n, held, other := newNode(t), newUID(), newUID()
	vol := n.PodDir(held) + "/volumes/kubernetes.io~empty-dir/tmp"
	n.Mkdir(vol, n.PodDir(other))
	holdNamespace(t, "mount -t tmpfs tmpfs '"+n.Path(vol)+"'")
	// The entering look comes last: its thread is in the namespace until the kernel has ended it.
	e := n.oneWith(held, !byFile)
	check(t, e, dead()) // lost without the guard, but reported
	if o := e.Facts[policy.FactMounted].Origin; o != "/proc/*/mountinfo, "+fmt.Sprint(views(t, o))+" mount namespaces, 1 without a process not read" {
		t.Errorf("the unread namespace is not reported: %s", o)
	}
	e = n.oneWith(held, byFile)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path(vol)+" (tmpfs) in the mount namespace that PID ")
	check(t, n.oneWith(other, byFile), dead())
	check(t, n.oneEntered(held), facts{policy.FactMounted: policy.Yes})
}

func views(t *testing.T, origin string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(origin, "/proc/*/mountinfo, %d mount", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// holdNamespace runs a script in one process, opens its mount namespace's file in another, and ends the first.
func holdNamespace(t *testing.T, script string) {
	t.Helper()
	fifo := t.TempDir() + "/fifo"
	must(t, unix.Mkfifo(fifo, 0o600))
	inner := script + "; echo \\$\\$ >'" + fifo + "'; read -r line <'" + fifo + "'"
	child(t, nil, "/", "unshare -m sh -c \""+inner+"\" & read -r pid <'"+fifo+"'; exec 7</proc/$pid/ns/mnt; echo >'"+fifo+"'; wait")
}
