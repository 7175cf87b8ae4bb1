package openfiles

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// bindSocket binds a unix socket at the path, which must be short (unix(7): 108 bytes), and
// holds it to the test's end.
func bindSocket(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	must(t, unix.Listen(fd, 1))
}

// TestSocketBound: the name of a listening socket is in use although nobody holds anything of
// the pod open. A socket elsewhere under a pod's UID, a name that nobody has bound any more, and
// a file that is no socket keep nothing.
func TestSocketBound(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n, bound, stale, elsewhere, file := newNode(t), newUID(), newUID(), newUID(), newUID()
	short := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(short, "x", string(elsewhere)), 0o700))
	must(t, os.MkdirAll(filepath.Join(short, "x", string(file)), 0o700))
	must(t, os.MkdirAll(filepath.Join(short, "p"), 0o700))
	n.Mkdir(n.PodDir(bound), n.PodDir(stale), n.PodDir(elsewhere))
	n.Write(n.PodDir(file)+"/s", "x")
	must(t, unix.Mount(n.Path("kubelet/pods"), filepath.Join(short, "p"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(short, "p"), unix.MNT_DETACH) })
	// A process beside this one, which is left out, in this mount and network namespace.
	child(t, nil, "", "exec 7</dev/null")
	bindSocket(t, filepath.Join(short, "p", string(bound), "s"))
	must(t, unix.Mknod(filepath.Join(short, "p", string(elsewhere), "s"), unix.S_IFSOCK|0o600, 0))
	must(t, unix.Mknod(filepath.Join(short, "p", string(stale), "s"), unix.S_IFSOCK|0o600, 0))
	bindSocket(t, filepath.Join(short, "x", string(elsewhere), "s"))
	bindSocket(t, filepath.Join(short, "x", string(file), "s"))

	a := n.read()
	n.want(a, bound, policy.Yes, "has bound the unix socket")
	n.unused(a, stale)
	n.unused(a, elsewhere)
	n.unused(a, file)
}

// TestSocketBoundElsewhere: the process that bound it has the pods directory under another name,
// in a mount namespace of its own.
func TestSocketBoundElsewhere(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	short := t.TempDir()
	n.Mkdir(n.PodDir(uid))
	own := &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	child(t, own, "", "mount --bind '"+n.Path("kubelet/pods")+"' '"+short+"'; exec 7</dev/null")
	// The same text, bound from here by the name that only that process has for the pod.
	must(t, os.MkdirAll(filepath.Join(short, string(uid)), 0o700))
	must(t, unix.Mknod(n.Path(n.PodDir(uid)+"/s"), unix.S_IFSOCK|0o600, 0))
	bindSocket(t, filepath.Join(short, string(uid), "s"))
	n.want(n.read(), uid, policy.Yes, "has bound the unix socket")
}
