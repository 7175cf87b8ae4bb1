package openfiles

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMapped: a file that is mapped and closed is in /proc/PID/maps only. It is found by its
// path, and by its inode number where the path names no pod.
func TestMapped(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	deleted, alias, linked, detached, other := newUID(), newUID(), newUID(), newUID(), newUID()
	n.Mkdir("alias", "bound")
	for _, uid := range []parsers.PodUID{deleted, alias, linked, detached, other} {
		n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/a\nb", "x")
	}
	file := func(dir string, uid parsers.PodUID) string {
		return n.Path(dir + "/" + string(uid) + "/volumes/kubernetes.io~empty-dir/d/a\nb")
	}
	n.bind("kubelet/pods", "alias")
	must(t, os.Link(file("kubelet/pods", linked), n.Path("link")))
	n.Write("x/"+string(other)+"/volumes/kubernetes.io~empty-dir/d/a\nb", "x")
	holder(t, "a mapped file", file("kubelet/pods", deleted))
	must(t, os.Remove(file("kubelet/pods", deleted)))
	holder(t, "a mapped file", file("alias", alias))
	holder(t, "a mapped file", n.Path("link"))
	holder(t, "a mapped file", file("x", other))
	must(t, unix.Mount(n.Path(n.PodDir(detached))+"/volumes/kubernetes.io~empty-dir/d", n.Path("bound"), "", unix.MS_BIND, ""))
	holder(t, "a mapped file", n.Path("bound/a\nb"))
	must(t, unix.Unmount(n.Path("bound"), unix.MNT_DETACH))
	a := n.read()
	for _, uid := range []parsers.PodUID{deleted, alias, linked, detached} {
		n.want(a, uid, policy.Yes, "as a mapped file")
	}
	n.unused(a, other)
	t.Run("the guard off", func(t *testing.T) {
		u := n.opened(t.Context(), n.handle("kubelet/pods"), nil, parsers.PodSet{deleted: true, alias: true, linked: true, detached: true})
		if len(u.pods)+len(u.doubts)+len(u.strays) > 0 || u.Err != nil {
			t.Errorf("the open files alone show %+v", u)
		}
	})
}

// TestMapsHang: a process that does not let its mappings be read leaves all pods in doubt, and
// is named.
func TestMapsHang(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	stick(t, n.Guard, "mappings")
	n.want(n.read(), uid, policy.Unknown, "cannot read what processes have mapped")
}

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]string{
		"7f14c2244000-7f14c2245000 r--s 00000000 07:00 14                         /a b":    "/a b",
		"7f14c2244000-7f14c2245000 r--s 00000000 07:00 14 ":                                "",
		"7ffef4666000-7ffef4687000 rw-p 00000000 00:00 0                          [stack]": "[stack]",
	} {
		m, ok := parseMapping([]byte(line))
		if !ok || string(m.path) != want {
			t.Errorf("%q: %v, %q", line, ok, m.path)
		}
		if _, ok := m.id(); !ok {
			t.Errorf("%q has no inode", line)
		}
	}
	if m, ok := parseMapping([]byte("a b c")); ok {
		t.Errorf("%+v", m)
	}
	m, _ := parseMapping([]byte("0-1 r--s 00000000 fd:1f 4294967296 /f"))
	if id, ok := m.id(); !ok || id != (inode{unix.Mkdev(0xfd, 0x1f), 1 << 32}) {
		t.Errorf("%+v, %v", id, ok)
	}
}

// handleEnv makes a copy of the test binary open a file by its handle, after its file system was
// mounted anew: DEVICE, a mount point and a path below it.
const handleEnv = "ORPHAN_REAPER_TEST_HANDLE"

func TestOpenByHandle(t *testing.T) {
	args := strings.Split(os.Getenv(handleEnv), "|")
	if len(args) != 3 {
		return
	}
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[1]+"/"+args[2], 0)
	must(t, err)
	must(t, unix.Unmount(args[1], 0))
	must(t, unix.Mount(args[0], args[1], "ext4", 0, ""))
	dir, err := unix.Open(args[1], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	_, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
	must(t, err)
	beneath.Close(dir)
	must(t, unix.Chdir("/"))
	testkit.WaitToEnd()
}

// TestHeldWithoutPath: a file that was opened by a handle has "/" for its path, and one that is
// too deep has none.
func TestHeldWithoutPath(t *testing.T) {
	testkit.NeedRoot(t)
	if !testkit.InNamespace(t) {
		return
	}
	n, held, deep, other := newNode(t), newUID(), newUID(), newUID()
	image := n.Path("image")
	n.Write("image", "")
	must(t, os.Truncate(image, 16<<20))
	if out, err := exec.CommandContext(t.Context(), testkit.NeedCommand(t, "mkfs.ext4"), "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	loop := testkit.Loop(t, image)
	n.Mkdir("node")
	n.Base = n.Path("node")
	must(t, unix.Mount(loop, n.Base, "ext4", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(n.Base, unix.MNT_DETACH) })
	n.Mkdir("kubelet/pods", "kubelet/orphan-reaper")
	for _, uid := range []parsers.PodUID{held, deep, other} {
		n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/f", "x")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenByHandle$")
	cmd.Env = append(os.Environ(), handleEnv+"="+loop+"|"+n.Base+"|"+n.PodDir(held)+"/volumes/kubernetes.io~empty-dir/d/f")
	testkit.UntilReady(t, cmd)
	name := strings.Repeat("d", 250)
	child(t, &syscall.SysProcAttr{}, n.Path(n.PodDir(deep)+"/volumes/kubernetes.io~empty-dir/d"),
		"i=0; while [ $i -lt 17 ]; do mkdir "+name+"; cd -P "+name+" 2>/dev/null || exit; i=$((i+1)); done")
	a := n.read()
	for uid, words := range map[parsers.PodUID]string{held: "a file without a path as fd", deep: "as cwd"} {
		n.want(a, uid, policy.Yes, words)
	}
	n.unused(a, other)
	// A pod whose files were not all looked at may have them.
	n.partly = true
	n.want(n.read(), other, policy.Unknown, "not all of this pod's files")
}
