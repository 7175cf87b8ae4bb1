package quarantine

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	csiMount = "volumes/kubernetes.io~csi/db/mount"
	subPath  = "volume-subpaths/vol/app/0"
)

// mountedNode is a tree with mounts of uidA.
type mountedNode struct {
	*tree
	q  *Quarantine
	id judge.FileID
}

func newMounted(t *testing.T, specs ...string) mountedNode {
	t.Helper()
	tr := newTree(t, append([]string{"dir volumes", "dir volume-subpaths"}, specs...)...)
	return mountedNode{tr, tr.open(false), idAt(t, tr.pod())}
}

func (n mountedNode) mounts() []Mount {
	n.T.Helper()
	mounts, err := n.q.Mounts(uidA, n.id)
	n.Must(err)
	return mounts
}

func (n mountedNode) unmount(m Mount) (judge.Result, error) {
	n.T.Helper()
	return n.q.Unmount(n.T.Context(), granted, uidA, n.id, m)
}

// gone takes a canary's mount as unmounted on purpose: what was behind it must be there still, where it was mounted from.
func (n mountedNode) gone(mountPoint string) { n.Unmounted(n.pod() + "/" + mountPoint) }

func (n mountedNode) wantResult(m Mount, want judge.Result, words string) {
	n.T.Helper()
	if got, err := n.unmount(m); got != want || err != nil && !strings.Contains(err.Error(), words) {
		n.T.Errorf("%s: %s, %v, want %s: %s", m, got, err, want, words)
	}
}

// TestUnmount unmounts mounts of each kind from the innermost on, stacked ones the topmost first, and what was mounted lives.
func TestUnmount(t *testing.T) {
	n := newMounted(t, "bind "+subPath, "tmpfs volumes/kubernetes.io~empty-dir/mem", "overlay "+csiMount, "bindfile volume-subpaths/vol/app/1")
	mem := n.pod() + "/volumes/kubernetes.io~empty-dir/mem"
	n.Mkdir(mem + "/in")
	for range 2 {
		n.Must(unix.Mount("in", mem+"/in", "tmpfs", 0, ""))
	}
	testkit.Mount(t, "beside", n.Pods+"/"+string(uidB)+"/volumes", "tmpfs", 0, "")
	n.Mkdir(n.pod() + ".old") // an administrator's
	testkit.Mount(t, "beside", n.pod()+".old", "tmpfs", 0, "")
	for _, at := range []string{subPath, csiMount, "volumes/kubernetes.io~empty-dir/mem", "volume-subpaths/vol/app/1"} {
		n.gone(at)
	}
	n.Canaries = nil // uidB's is covered
	mounts := n.mounts()
	if len(mounts) != 6 {
		t.Fatalf("%+v", mounts)
	}
	if r, err := n.q.Unmount(t.Context(), judge.Permit{}, uidA, n.id, mounts[0]); r != judge.Refused || err == nil || len(n.mounts()) != 6 {
		t.Errorf("without a permit: %s, %v", r, err)
	}
	if mounts[1].Mountpoint != mounts[0].Mountpoint {
		t.Errorf("the order is %v", mounts)
	}
	n.wantResult(mounts[1], judge.Refused, "covers it")
	for i, m := range mounts {
		n.wantResult(m, judge.Done, "")
		if left := n.mounts(); len(left) != 5-i {
			t.Errorf("after %s: %v", m, left)
		}
		n.wantResult(m, judge.Gone, "any more")
	}
	if testkit.MountAt(t, n.Pods+"/"+string(uidB)+"/volumes") == "" {
		t.Error("another pod's mount is gone")
	}
}

// TestUnmountOtherPath unmounts a mount that was made at the other path of a kubelet's root that is a bind mount: at the path
// of the pods directory nothing is mounted.
func TestUnmountOtherPath(t *testing.T) {
	n := newMounted(t, "dir "+csiMount)
	other := n.Base + "/var-lib-kubelet"
	n.Mkdir(other)
	testkit.Mount(t, n.Root, other, "", unix.MS_BIND, "")
	n.Must(unix.Mount("data", n.pod()+"/"+csiMount, "tmpfs", 0, ""))
	q, err := Open(Config{PodsDir: other + "/pods", Dir: other + "/orphan-reaper"})
	n.Must(err)
	n.q = q
	mounts := n.mounts()
	if len(mounts) != 1 || mounts[0].Mountpoint != n.pod()+"/"+csiMount || testkit.MountAt(t, other+"/pods/"+string(uidA)+"/"+csiMount) != "" {
		t.Fatalf("%v", mounts)
	}
	n.wantResult(mounts[0], judge.Done, "")
	if left := n.mounts(); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// TestUnmountBusy checks that what a process uses is kept: the unmount is never lazy.
func TestUnmountBusy(t *testing.T) {
	n := newMounted(t, "tmpfs "+csiMount)
	f, err := os.Open(n.pod() + "/" + csiMount + "/canary")
	n.Must(err)
	n.wantResult(n.mounts()[0], judge.Refused, "is in use")
	n.Must(f.Close())
	n.Check()
}

// TestUnmountOther checks that another mount than the one that was shown is kept, as is one in another directory of the
// pod's name. Without the checks it is lost.
func TestUnmountOther(t *testing.T) {
	n := newMounted(t, "tmpfs "+csiMount)
	shown := n.mounts()[0]
	at := n.pod() + "/" + csiMount
	n.gone(csiMount)
	n.Must(unix.Unmount(at, 0))
	n.Mount("bind", at)
	n.wantResult(shown, judge.Gone, "any more")
	n.Check()
	shown = n.mounts()[0]
	n.id.Ino++
	n.wantResult(shown, judge.Refused, "another directory")
	n.id.Ino--
	for _, guard := range []bool{true, false} {
		// It is covered between the search and the call.
		n.q.guards.topmost = guard
		n.q.disk = hooked{kernel{}, func(string, string) {}}
		top := testkit.MountAt(t, at)
		n.Must(unix.Mount("top", at, "tmpfs", 0, ""))
		r, err := n.unmount(shown)
		if lost := testkit.MountAt(t, at) == top; lost == guard {
			t.Errorf("guard %t: %s, %v, the mount on top is gone: %t", guard, r, err, lost)
		}
		if guard {
			n.Must(unix.Unmount(at, 0))
		}
	}
}

// TestUnmountLastMoment mounts something between the last check and the call, which detaches that instead. It is the window
// that doc.go states: only who may mount in the node's namespace can use it, and the files live.
func TestUnmountLastMoment(t *testing.T) {
	n := newMounted(t, "tmpfs "+csiMount)
	at := n.pod() + "/" + csiMount
	shown := n.mounts()[0]
	n.q.disk = hooked{kernel{}, func(string, string) { n.Must(unix.Mount("top", at, "tmpfs", 0, "")) }}
	n.wantResult(shown, judge.Done, "")
	if left := n.mounts(); len(left) != 1 || left[0].Info != shown.Info { // by which the caller finds out
		t.Errorf("%v", left)
	}
}

// TestUnmountCrossing checks that what was mounted over a directory on the way is not crossed.
func TestUnmountCrossing(t *testing.T) {
	n := newMounted(t, "bind "+subPath)
	shown := n.mounts()[0]
	other := n.Outside + "/other"
	n.Mkdir(other + "/vol/app/0")
	n.Must(unix.Mount(other, other, "", unix.MS_BIND, ""))
	n.Mount("bind", other+"/vol/app/0")
	over := n.pod() + "/volume-subpaths"
	n.Must(unix.Mount(other, over, "", unix.MS_BIND|unix.MS_REC, ""))
	was := testkit.MountAt(t, over+"/vol/app/0")
	n.wantResult(shown, judge.Refused, "covers it")
	if testkit.MountAt(t, over+"/vol/app/0") != was {
		t.Error("another mount was unmounted")
	}
	n.Must(unix.Unmount(over, unix.MNT_DETACH))
}

// TestUnmountServer checks that a file system with a server, which may hang, is not entered to unmount what is in it.
func TestUnmountServer(t *testing.T) {
	n := newMounted(t, "dir "+csiMount)
	testkit.HungFUSE(t, n.pod()+"/"+csiMount)
	mounts := n.mounts()
	if len(mounts) != 1 {
		t.Fatalf("%v", mounts)
	}
	dir, err := n.q.openPod(uidA, n.id)
	n.Must(err)
	defer dir.Close()
	volumes, err := dir.Step("volumes")
	n.Must(err)
	defer volumes.Close()
	under := mounts[0].Info
	under.Mountpoint = "/x/hung"
	if _, err := cross(volumes, "hung", "/x/hung", []mountinfo.Info{under}); err == nil || !strings.Contains(err.Error(), "may not answer") {
		t.Error(err)
	}
}

// TestUnmountLink checks that a link in place of a mount point, or of a directory on the way, is not followed.
func TestUnmountLink(t *testing.T) {
	for _, at := range []string{csiMount, "volumes/kubernetes.io~csi/db", "volumes"} {
		n := newMounted(t, "dir "+csiMount)
		elsewhere := n.Outside + "/elsewhere"
		n.Mkdir(elsewhere)
		n.Mount("bind", elsewhere)
		link := n.pod() + "/" + at
		n.Must(os.Rename(link, n.Outside+"/away"))
		n.Must(os.Symlink(elsewhere, link))
		dir, err := n.q.openPod(uidA, n.id)
		n.Must(err)
		on, err := dir.MountID()
		dir.Close()
		n.Must(err)
		roots, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return uint64(m.ID) != on, false })
		n.Must(err)
		descend := func(path string) error {
			rel, _ := below(roots[0].Mountpoint, path)
			dir, err := n.q.descend(roots[0], strings.Split(rel, "/"), nil, n.id)
			dir.Close()
			return err
		}
		if err := descend(n.pod()); err != nil {
			t.Error(err)
		}
		if err := descend(link); err == nil {
			t.Errorf("%s was followed", at)
		}
	}
}

// TestUnmountAttacked exchanges a directory on the way with a link to a mount elsewhere, or mounts a canary over the mount
// point, while mounts are unmounted. What is elsewhere, and what was mounted, lives.
func TestUnmountAttacked(t *testing.T) {
	n := newMounted(t, "dir "+csiMount)
	dir := n.pod() + "/volumes/kubernetes.io~csi/db"
	at, elsewhere, link, canaries := dir+"/mount", n.Outside+"/elsewhere", n.Outside+"/link", n.CanaryDir()
	n.Mkdir(elsewhere + "/mount")
	n.Mount("bind", elsewhere+"/mount")
	n.Must(os.Symlink(elsewhere, link))
	swap := func() bool {
		return unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil
	}
	for name, toggle := range map[string]func() bool{
		"link": func() bool {
			there := swap()
			return swap() && there
		},
		"mount": func() bool {
			return unix.Mount(canaries, at, "", unix.MS_BIND, "") == nil && unix.Unmount(at, unix.UMOUNT_NOFOLLOW) == nil
		},
	} {
		var mu sync.Mutex // held while this test itself mounts and checks
		mu.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		toggles, done := 0, 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				if toggle() {
					toggles++
				}
				mu.Unlock()
			}
		})
		rounds := 30
		if testkit.Long() {
			rounds = 3000
		}
		for range rounds {
			n.Must(unix.Mount("own", at, "tmpfs", 0, ""))
			mounts := n.mounts()
			mu.Unlock()
			for _, m := range mounts {
				if r, _ := n.unmount(m); r == judge.Done {
					done++
				}
			}
			mu.Lock()
			if lost := n.Lost(); lost != nil {
				t.Fatalf("%s: lost %v", name, lost)
			}
			for left := true; left; {
				left = unix.Unmount(at, unix.UMOUNT_NOFOLLOW) == nil
			}
		}
		cancel()
		mu.Unlock()
		wg.Wait()
		t.Logf("%s: %d of %d rounds unmounted, %d toggles", name, done, rounds, toggles)
	}
}

// TestUnmountDeleted checks that a bind of a deleted file is kept, since it is all that keeps its content; what the kubelet
// has made and replaced since is not.
func TestUnmountDeleted(t *testing.T) {
	n := newMounted(t, "file volumes/f", "file volumes/kubernetes.io~configmap/c/key", "file volume-subpaths/c/app/0", "file ../gone",
		"file volumes/kubernetes.io~local-volume/l/data", "file volume-subpaths/l/app/0")
	for from, to := range map[string]string{
		n.Pods + "/gone": "volumes/f", n.pod() + "/volumes/kubernetes.io~configmap/c/key": "volume-subpaths/c/app/0",
		n.pod() + "/volumes/kubernetes.io~local-volume/l/data": "volume-subpaths/l/app/0",
	} {
		if err := unix.Mount(from, n.pod()+"/"+to, "", unix.MS_BIND, ""); err != nil {
			testkit.Skip(t, "nothing can be mounted: ", err)
		}
		n.Must(os.Remove(from))
	}
	for _, m := range n.mounts() {
		if m.FSType == "tmpfs" {
			testkit.Skip(t, "the temporary directory is in memory, of which nothing is kept: set TMPDIR to one on a disk")
		}
		if keeps := !strings.HasSuffix(m.Mountpoint, "/c/app/0"); (m.Keeps != "") != keeps {
			t.Errorf("%s: %q", m, m.Keeps)
		}
		if m.Keeps != "" {
			n.wantResult(m, judge.Refused, "was deleted")
		} else {
			n.wantResult(m, judge.Done, "")
		}
	}
}

// TestUnmountInterrupted checks that nothing is begun once the operator has interrupted the command.
func TestUnmountInterrupted(t *testing.T) {
	n := newMounted(t, "tmpfs "+csiMount)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := n.q.Unmount(ctx, granted, uidA, n.id, n.mounts()[0]); r != judge.Refused || err == nil || len(n.mounts()) != 1 {
		t.Errorf("%s, %v", r, err)
	}
}
