package openfiles

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// detachedTree is how TestHolder is asked for openTree, whose path is a directory.
const detachedTree = "a detached tree"

// openTree opens a file through a copy of its directory's mount that is nowhere in the tree.
func openTree(path string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer beneath.Close(tree)
	_, err = unix.Openat(tree, "f", unix.O_RDONLY, 0)
	return err
}

// TestDetachedBinds: a bind mount that was taken out of the tree is in no mountinfo, and the paths
// of the files on it do not name the pod.
func TestDetachedBinds(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	dir := func(uid parsers.PodUID) string { return n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/d" }
	lazily := func(script string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			at := t.TempDir()
			script := "mount --bind '" + dir + "' '" + at + "'; " + fmt.Sprintf(script, at) + "; umount -l '" + at + "'"
			child(t, nil, "/", script)
		}
	}
	ways := map[string]struct {
		hold func(t *testing.T, dir string)
		what string
	}{
		"open file":         {lazily("exec 7<'%s/f'"), "as fd 7"},
		"removed file":      {lazily("exec 7<'%[1]s/f'; rm '%[1]s/f'; : >'%[1]s/f'; exec 7<'%[1]s/f'"), "as fd 7"},
		"working directory": {lazily("cd '%s/sub'"), "as cwd"},
		"its root":          {lazily("cd '%s'"), "as cwd"},
		"never attached": {func(t *testing.T, dir string) {
			t.Helper()
			holder(t, detachedTree, dir)
		}, "as fd"},
		"in another namespace": {func(t *testing.T, dir string) {
			t.Helper()
			at := t.TempDir()
			child(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "/", "mount --bind '"+dir+"' '"+at+"'; exec 7<'"+at+"/f'; umount -l '"+at+"'")
		}, "as fd 7"},
	}
	held := map[string]parsers.PodUID{}
	for name, way := range ways {
		uid := newUID()
		held[name] = uid
		n.Write(dir(uid)+"/f", "x")
		n.Mkdir(dir(uid) + "/sub")
		way.hold(t, n.Path(dir(uid)))
	}
	other := newUID()
	n.Write(dir(other)+"/f", "x")
	n.Write("elsewhere/f", "x")
	lazily("exec 7<'%s/f'")(t, n.Path("elsewhere"))
	a := n.read()
	for name, uid := range held {
		n.want(a, uid, policy.Yes, ways[name].what)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	n.unused(a, other)

	t.Run("lost without their mounts", func(t *testing.T) {
		u := n.Read(t.Context(), n.handle("kubelet/pods"), nil, nil)
		var st unix.Statx_t
		must(t, statLinkTo(n.Path(dir(held["open file"])+"/f"), &st))
		if _, ok := u.strays[idOf(&st)]; ok || u.Err != nil {
			t.Errorf("seen by its path, %v", u.Err)
		}
		n.Detached(t.Context(), u, n.mountIDs())
		if _, ok := u.strays[idOf(&st)]; !ok {
			t.Error("not seen by its mount")
		}
	})
	t.Run("a pod whose files were not all looked at", func(*testing.T) {
		n.partly = true
		n.want(n.read(), other, policy.Unknown, "a file on a detached mount")
	})
}

// TestYoungMounts: a mount that was made since the mounts were read looks like a detached one. The
// process's own mountinfo has it.
func TestYoungMounts(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	n.Write("x/f", "x")
	n.Mkdir("y")
	ids := n.mountIDs()
	n.bind("x", "y")
	young := strconv.Itoa(child(t, nil, n.Path("y"), "exec 7<f"))
	u := n.Read(t.Context(), n.handle("kubelet/pods"), nil, nil)
	n.Detached(t.Context(), u, ids)
	for _, held := range u.strays {
		if held.process == young && held.nameless {
			t.Errorf("a mount that is there counts as detached: %+v", held)
		}
	}
}

// TestDetachedNotAsked: where the processes cannot be asked, no pod is known to be free of them.
func TestDetachedNotAsked(t *testing.T) {
	r := &Reader{ProcDir: t.TempDir() + "/gone", Guard: &bounded.Guard{}}
	u := r.newAnswer(t.Context(), nil)
	u.read, u.detached.mounts = 1, map[uint64][]string{7: {"1"}}
	r.Detached(t.Context(), u, []uint64{1})
	if f := u.Fact(newUID(), nil); u.Err == nil || f.Truth != policy.Unknown {
		t.Errorf("%v, in use is %s", u.Err, f.Truth)
	}
}
