package unmount

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The tests mount for real, in a mount namespace of their own.
func TestMain(m *testing.M) { testkit.Main(m) }

// granted is what the gate grants on a healthy node.
var granted = policy.Standing{Node: policy.Node{MayEnforce: policy.Fact{Truth: policy.Yes}, Agrees: policy.Fact{Truth: policy.Yes}}}.Gate()

const (
	csiMount = "volumes/kubernetes.io~csi/db/mount"
	subPath  = "volume-subpaths/vol/app/0"
)

// node is a tree with the mounts of PodA, as mountinfo has them.
type node struct {
	*testkit.Tree
	u *Unmounter
}

func newNode(t *testing.T, specs ...string) node {
	t.Helper()
	tr := testkit.NewTree(t, append([]string{"dir volumes", "dir volume-subpaths"}, specs...)...)
	u, err := New(Config{PodsDir: tr.Pods, Patience: 2 * time.Minute, FuseDir: t.TempDir()})
	tr.Must(err)
	return node{tr, u}
}

// pod reads mountinfo anew.
func (n node) pod() Pod {
	n.T.Helper()
	dir := n.Pods + "/" + string(testkit.PodA)
	fd, err := beneath.OpenDirPath(dir)
	n.Must(err)
	defer beneath.Close(fd)
	id, err := beneath.IDOf(fd)
	n.Must(err)
	text, err := os.ReadFile("/proc/self/mountinfo")
	n.Must(err)
	pod := Pod{UID: testkit.PodA, ID: id}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		path, ok := strings.CutPrefix(f[4], dir+"/")
		if !ok {
			continue
		}
		m := policy.Mount{Path: path, Dev: f[2], Root: f[3]}
		m.ID, _ = strconv.ParseUint(f[0], 10, 64)
		m.Parent, _ = strconv.ParseUint(f[1], 10, 64)
		_, rest, _ := strings.Cut(line, " - ")
		m.Type, m.Source = strings.Fields(rest)[0], strings.Fields(rest)[1]
		pod.Mounts = append(pod.Mounts, m)
	}
	p := policy.PodMounts{Mounts: pod.Mounts}
	p.Sort()
	pod.Mounts = p.Mounts
	n.u.Identify(n.T.Context(), pod)
	return pod
}

func (n node) unmount(pod Pod, m policy.Mount) policy.MountOutcome {
	n.T.Helper()
	return n.u.Unmount(n.T.Context(), granted, pod, m)
}

// gone takes a canary's mount as unmounted on purpose: what was behind it must be there still, where it was mounted from.
func (n node) gone(mountPoint string) {
	n.Unmounted(n.Pods + "/" + string(testkit.PodA) + "/" + mountPoint)
}

// TestUnmount: mounts of each kind go from the innermost on, stacked ones the topmost first, and what was mounted lives.
func TestUnmount(t *testing.T) {
	n := newNode(t, "bind "+subPath, "tmpfs volumes/kubernetes.io~empty-dir/mem", "overlay "+csiMount, "bindfile volume-subpaths/vol/app/1")
	dir := n.Pods + "/" + string(testkit.PodA) + "/"
	mem := dir + "volumes/kubernetes.io~empty-dir/mem"
	n.Mkdir(mem + "/in")
	for range 2 {
		n.Must(unix.Mount("in", mem+"/in", "tmpfs", 0, ""))
	}
	for _, at := range []string{subPath, csiMount, "volumes/kubernetes.io~empty-dir/mem", "volume-subpaths/vol/app/1"} {
		n.gone(at)
	}
	pod := n.pod()
	if len(pod.Mounts) != 6 {
		t.Fatalf("%+v", pod.Mounts)
	}
	if o := n.u.Unmount(t.Context(), policy.Permit{}, pod, pod.Mounts[0]); o.Result != policy.Refused || len(n.pod().Mounts) != 6 {
		t.Errorf("without a permit: %+v", o)
	}
	under := pod.Mounts[1]
	if o := n.unmount(pod, under); !o.Covered || under.Path != pod.Mounts[0].Path {
		t.Errorf("the lower of two: %+v", o)
	}
	for i, m := range pod.Mounts {
		if o := n.unmount(pod, m); o.Result != policy.Done {
			t.Errorf("%s: %+v", m.Path, o)
		}
		if left := n.pod().Mounts; len(left) != 5-i {
			t.Errorf("after %s: %+v", m.Path, left)
		}
		if o := n.unmount(pod, m); o.Result == policy.Done || o.Result == policy.Failed {
			t.Errorf("%s again: %+v", m.Path, o)
		}
	}
}

// TestBusy: what a process uses stays, and what is mounted on something keeps that.
func TestBusy(t *testing.T) {
	n := newNode(t, "tmpfs "+csiMount)
	f, err := os.Open(n.Pods + "/" + string(testkit.PodA) + "/" + csiMount + "/canary")
	n.Must(err)
	pod := n.pod()
	if o := n.unmount(pod, pod.Mounts[0]); !o.Busy || o.Result != policy.Refused {
		t.Errorf("%+v", o)
	}
	n.Must(f.Close())
}

// TestOther: another mount than the one that was shown stays, as does one in another directory of the pod's name. Without
// the check it is lost.
func TestOther(t *testing.T) {
	for _, check := range []bool{true, false} {
		n := newNode(t, "tmpfs "+csiMount)
		pod := n.pod()
		at := n.Pods + "/" + string(testkit.PodA) + "/" + csiMount
		n.gone(csiMount)
		n.Must(unix.Unmount(at, 0))
		n.Mount("bind", at)
		n.u.checks.id = check
		o := n.unmount(pod, pod.Mounts[0])
		if lost := len(n.Lost()) > 0; lost == check {
			t.Errorf("check %t: %+v, lost %t", check, o, lost)
		}
		if !check {
			n.gone(csiMount)
		}
		n.u.checks.id = true
		pod.ID.Ino++
		if o := n.unmount(pod, pod.Mounts[0]); o.Result != policy.Refused {
			t.Errorf("another directory: %+v", o)
		}
	}
}

// TestCrossing: what was mounted over a directory on the way, after the list was made, is not crossed: a mount of
// the same ID cannot be there, and one of the same name is another. Without the checks it is lost.
func TestCrossing(t *testing.T) {
	for _, check := range []bool{true, false} {
		n := newNode(t, "bind "+subPath)
		pod := n.pod()
		other := n.Outside + "/other"
		n.Mkdir(other + "/vol/app/0")
		n.Must(unix.Mount(other, other, "", unix.MS_BIND, ""))
		n.Mount("bind", other+"/vol/app/0")
		over := n.Pods + "/" + string(testkit.PodA) + "/volume-subpaths"
		n.Must(unix.Mount(other, over, "", unix.MS_BIND|unix.MS_REC, ""))
		n.u.checks.crossing, n.u.checks.id = check, check
		before := testkit.MountAt(t, over+"/vol/app/0")
		n.unmount(pod, pod.Mounts[0])
		if stays := testkit.MountAt(t, over+"/vol/app/0") == before; stays != check {
			t.Errorf("check %t: it stays: %t", check, stays)
		}
		n.Must(unix.Unmount(over, unix.MNT_DETACH))
	}
}

// TestLink: a link in place of a mount point, or of a directory on the way, is not followed.
func TestLink(t *testing.T) {
	for _, at := range []string{csiMount, "volumes/kubernetes.io~csi/db", "volumes"} {
		n := newNode(t, "dir "+csiMount)
		elsewhere := n.Outside + "/elsewhere"
		n.Mkdir(elsewhere)
		n.Mount("bind", elsewhere)
		id, _ := strconv.ParseUint(testkit.MountAt(t, elsewhere), 10, 64)
		pod := n.pod()
		link := n.Pods + "/" + string(testkit.PodA) + "/" + at
		n.Must(os.Rename(link, n.Outside+"/away"))
		n.Must(os.Symlink(elsewhere, link))
		if o := n.unmount(pod, policy.Mount{ID: id, Path: csiMount, Type: "tmpfs"}); o.Result == policy.Done {
			t.Errorf("%s: %+v", at, o)
		}
	}
}

// TestAttackers: while mounts are unmounted, another process exchanges a directory on the way with a link to a mount elsewhere,
// or mounts a canary over the mount point and takes it away. What is elsewhere, and what was mounted, lives.
func TestAttackers(t *testing.T) {
	n := newNode(t, "dir "+csiMount)
	dir := n.Pods + "/" + string(testkit.PodA) + "/volumes/kubernetes.io~csi/db"
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
		var mu sync.Mutex // held while this test itself mounts and looks
		mu.Lock()
		stop, toggles, done := make(chan struct{}), 0, 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				if toggle() {
					toggles++
				}
				mu.Unlock()
			}
		})
		rounds := 100
		if testkit.Long() {
			rounds = 3000
		}
		for range rounds {
			n.Must(unix.Mount("own", at, "tmpfs", 0, ""))
			pod := n.pod()
			mu.Unlock()
			for _, m := range pod.Mounts {
				if n.unmount(pod, m).Result == policy.Done {
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
		close(stop)
		mu.Unlock()
		wg.Wait()
		t.Logf("%s: %d of %d rounds unmounted, %d toggles", name, done, rounds, toggles)
	}
}

// TestLastMoment: what is mounted on top between the last look and the call goes in place of the one that was shown. It
// is the window that doc.go states: only who may mount in the node's namespace can use it, and the files live.
func TestLastMoment(t *testing.T) {
	n := newNode(t, "tmpfs "+csiMount)
	at := n.Pods + "/" + string(testkit.PodA) + "/" + csiMount
	pod := n.pod()
	n.u.checks.before = func() { n.Must(unix.Mount("top", at, "tmpfs", 0, "")) }
	if o := n.unmount(pod, pod.Mounts[0]); o.Result != policy.Done {
		t.Errorf("%+v", o)
	}
	if left := n.pod().Mounts; len(left) != 1 || !left[0].Is(pod.Mounts[0]) { // by which the caller finds out
		t.Errorf("%+v", left)
	}
}

// TestHangs: a FUSE server with a request that it does not answer is passed over in bounded time, and asked nothing. One
// that waits for nothing needs no answer to be unmounted.
func TestHangs(t *testing.T) {
	n := newNode(t, "dir "+csiMount)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testkit.Skip(t, "no /dev/fuse: ", err)
	}
	defer beneath.Close(fd)
	at := n.Pods + "/" + string(testkit.PodA) + "/" + csiMount
	if err := unix.Mount("hung", at, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		testkit.Skip(t, "no FUSE mount: ", err)
	}
	pod := n.pod()
	_, minor, _ := strings.Cut(pod.Mounts[0].Dev, ":")
	waiting := n.u.cfg.FuseDir + "/" + minor
	n.Mkdir(waiting)
	n.Must(os.WriteFile(waiting+"/waiting", []byte("2\n"), 0o600))
	n.u.cfg.Patience = 3 * time.Second
	if o := n.unmount(pod, pod.Mounts[0]); !o.Hangs || !strings.Contains(o.Why, "its server: 2") {
		t.Errorf("%+v", o)
	}
	n.u.cfg.Patience = 2 * time.Minute
	n.Must(os.WriteFile(waiting+"/waiting", []byte("0\n"), 0o600))
	if o := n.unmount(pod, pod.Mounts[0]); o.Result != policy.Done {
		t.Errorf("%+v", o)
	}
}

// TestHangsOnAsking: a server that is asked and does not answer costs no more than the patience.
func TestHangsOnAsking(t *testing.T) {
	n := newNode(t, "dir "+csiMount)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testkit.Skip(t, "no /dev/fuse: ", err)
	}
	at := n.Pods + "/" + string(testkit.PodA) + "/" + csiMount
	if err := unix.Mount("hung", at, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		testkit.Skip(t, "no FUSE mount: ", err)
	}
	pod := n.pod()
	pod.Mounts[0].Type, n.u.cfg.Patience = "nfs4", 3*time.Second
	if o := n.unmount(pod, pod.Mounts[0]); !o.Hangs {
		t.Errorf("%+v", o)
	}
	beneath.Close(fd) // which ends the request
	for n.u.guard.Stuck() > 0 {
		time.Sleep(time.Millisecond)
	}
	n.Must(unix.Unmount(at, 0))
}

// TestInterrupted: nothing is begun once the operator has interrupted the command.
func TestInterrupted(t *testing.T) {
	n := newNode(t, "tmpfs "+csiMount)
	pod := n.pod()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := n.u.Unmount(ctx, granted, pod, pod.Mounts[0]); o.Result != policy.Refused || len(n.pod().Mounts) != 1 {
		t.Errorf("%+v", o)
	}
}

// TestDeleted: a bind of a file that was deleted is all that keeps its content, and so is a mount of a loop device. A
// directory that was removed holds nothing.
func TestDeleted(t *testing.T) {
	n := newNode(t, "dir volumes/d", "dir volumes/loop", "file volumes/f", "dir ../was", "file ../gone")
	dir := n.Pods + "/" + string(testkit.PodA)
	for from, to := range map[string]string{"gone": "volumes/f", "was": "volumes/d"} {
		from = filepath.Join(dir, "..", from)
		if err := unix.Mount(from, dir+"/"+to, "", unix.MS_BIND, ""); err != nil {
			testkit.Skip(t, "nothing can be mounted: ", err)
		}
		n.Must(os.Remove(from))
	}
	for _, m := range n.pod().Mounts {
		if m.Deleted != (m.Path == "volumes/f") {
			t.Errorf("%+v", m)
		}
	}
	n.u.cfg.BlockDir = t.TempDir()
	n.Mkdir(n.u.cfg.BlockDir + "/7:3/loop")
	for text, want := range map[string]bool{"/x (deleted)\n": true, "/x\n": false} {
		n.Must(os.WriteFile(n.u.cfg.BlockDir+"/7:3/loop/backing_file", []byte(text), 0o600))
		if got := n.u.loopDeleted(policy.Mount{Dev: "7:3"}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
