package probe

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
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
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
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	dir := func(uid parsers.PodUID) string { return n.pod(uid) + "/volumes/kubernetes.io~empty-dir/d" }
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
		n.write(dir(uid)+"/f", "x")
		n.mkdir(dir(uid) + "/sub")
		way.hold(t, n.path(dir(uid)))
	}
	other := newUID()
	n.write(dir(other)+"/f", "x")
	n.write("elsewhere/f", "x")
	lazily("exec 7<'%s/f'")(t, n.path("elsewhere"))
	look := n.look()
	for name, uid := range held {
		e := find(t, look, uid)
		check(t, e, but(facts{policy.FactInUse: policy.Yes}))
		wantDetail(t, e.Facts[policy.FactInUse], ways[name].what)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	check(t, find(t, look, other), dead())

	t.Run("lost without their mounts", func(t *testing.T) {
		p := n.probe()
		l, err := p.dirs.List(t.Context())
		must(t, err)
		u := p.openFiles(t.Context(), l.Pods, nil, parsers.PodSet{})
		var st unix.Statx_t
		must(t, statLinkTo(n.path(dir(held["open file"])+"/f"), &st))
		if _, ok := u.strays[idOf(&st)]; ok || u.err != nil {
			t.Errorf("seen by its path, %v", u.err)
		}
		p.detached(t.Context(), p.readMounts(t.Context(), parsers.PodSet{}), u)
		if _, ok := u.strays[idOf(&st)]; !ok {
			t.Error("not seen by its mount")
		}
	})
	t.Run("a pod whose files were not all looked at", func(t *testing.T) {
		n.most = 3
		defer func() { n.most = 0 }()
		for range n.most {
			n.mkdir(dir(other) + "/" + string(newUID()))
		}
		e := n.one(other)
		check(t, e, but(facts{policy.FactInUse: policy.Unknown}))
		wantDetail(t, e.Facts[policy.FactInUse], "a file on a detached mount")
	})
}

// TestYoungMounts: a mount that was made since the mounts were read looks like a detached one. The
// process's own mountinfo has it.
func TestYoungMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	n.write("x/f", "x")
	n.mkdir("y")
	p := n.probe()
	l, err := p.dirs.List(t.Context())
	must(t, err)
	m := p.readMounts(t.Context(), parsers.PodSet{})
	n.mount("x", "y")
	young := strconv.Itoa(child(t, nil, n.path("y"), "exec 7<f"))
	u := p.openFiles(t.Context(), l.Pods, nil, parsers.PodSet{})
	p.detached(t.Context(), m, u)
	for _, held := range u.strays {
		if held.process == young && held.nameless {
			t.Errorf("a mount that is there counts as detached: %+v", held)
		}
	}
}

// TestNamespaceHeldByDescriptor: no process is in the mount namespace, it is bound nowhere, and an
// open file of it holds it.
func TestNamespaceHeldByDescriptor(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	testkit.NeedKernel(t, 6, 13)
	n, held, other := newNode(t), newUID(), newUID()
	vol := n.pod(held) + "/volumes/kubernetes.io~empty-dir/tmp"
	n.mkdir(vol, n.pod(other))
	holdNamespace(t, "mount -t tmpfs tmpfs '"+n.path(vol)+"'")
	e := n.oneWith(held, byFile)
	check(t, e, facts{policy.FactMounted: policy.Yes})
	wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.path(vol)+" (tmpfs) in the mount namespace that PID ")
	check(t, n.oneWith(other, byFile), dead())
	check(t, n.oneEntered(held), facts{policy.FactMounted: policy.Yes})
	e = n.oneWith(held, !byFile)
	check(t, e, dead()) // lost without the guard, and told
	if o := e.Facts[policy.FactMounted].Origin; o != "/proc/*/mountinfo, "+fmt.Sprint(views(t, o))+" mount namespaces, 1 without a process not read" {
		t.Errorf("what was not read is not told: %s", o)
	}
}

func views(t *testing.T, origin string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(origin, "/proc/*/mountinfo, %d mount", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// holdNamespace has a process run a script in a mount namespace, another one open the namespace's
// file, and the first one end.
func holdNamespace(t *testing.T, script string) {
	t.Helper()
	fifo := t.TempDir() + "/fifo"
	must(t, unix.Mkfifo(fifo, 0o600))
	inner := script + "; echo \\$\\$ >'" + fifo + "'; read -r line <'" + fifo + "'"
	child(t, nil, "/", "unshare -m sh -c \""+inner+"\" & read -r pid <'"+fifo+"'; exec 7</proc/$pid/ns/mnt; echo >'"+fifo+"'; wait")
}

// TestDetachedNotAsked: where the processes cannot be asked, no pod is known to be free of them.
func TestDetachedNotAsked(t *testing.T) {
	p := &Probe{cfg: Config{ProcDir: t.TempDir() + "/gone"}, guard: &bounded.Guard{}}
	u := &openFiles{detached: detachedFiles{mounts: map[uint64][]string{7: {"1"}}}}
	p.detached(t.Context(), &mounts.Answer{IDs: []uint64{1}}, u)
	if f := u.fact(newUID(), p.cfg.ProcDir); u.err == nil || f.Truth != policy.Unknown {
		t.Errorf("%v, in use is %s", u.err, f.Truth)
	}
}
