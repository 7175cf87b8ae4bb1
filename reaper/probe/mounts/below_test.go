package mounts

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMain keeps the processes of the machine from these tests: one with a root directory of its own would be a doubt.
func TestMain(m *testing.M) {
	testkit.Alone()
	os.Exit(m.Run())
}

// below is a node with a pod, on a file system with shared propagation, like systemd's "/".
type below struct {
	t    *testing.T
	root string // the kubelet's root directory
	dir  string // the pod's directory
	*Reader
}

func newBelow(t *testing.T) below {
	t.Helper()
	base := t.TempDir()
	testkit.Mount(t, "tmpfs", base, "tmpfs", 0, "")
	testkit.Must(t, unix.Mount("", base, "", unix.MS_SHARED, ""))
	b := below{t: t, root: base + "/kubelet", dir: base + "/kubelet/pods/" + string(testkit.PodA)}
	for _, dir := range []string{b.dir + "/volumes/v", b.dir + "/volumes/kubernetes.io~csi/db/mount", b.dir + "/volume-subpaths/v/app/0", base + "/data/in"} {
		testkit.Must(t, os.MkdirAll(dir, 0o755))
	}
	b.Reader = &Reader{ProcDir: "/proc", RootDir: b.root, QuarantineDir: b.root + "/orphan-reaper", CgroupRoot: "/none", Guard: &bounded.Guard{}}
	return b
}

// mount mounts a tmpfs, or bind-mounts a directory.
func (b below) mount(source, at string) {
	b.t.Helper()
	fs, flags := "tmpfs", uintptr(0)
	if strings.HasPrefix(source, "/") {
		fs, flags = "", unix.MS_BIND
	}
	if err := unix.Mount(source, at, fs, flags, ""); err != nil {
		testkit.Skip(b.t, "nothing can be mounted: ", err)
	}
}

func (b below) read() policy.PodMounts { return b.Below(b.t.Context(), testkit.PodA, nil, true) }

// namespace starts a process in a mount namespace of its own. The flags set the propagation of the node's mounts to
// it.
func (b below) namespace(flags uintptr) *exec.Cmd {
	b.t.Helper()
	return b.start(map[uintptr]string{unix.MS_PRIVATE: "private", unix.MS_SLAVE: "slave", unix.MS_SHARED: "unchanged"}[flags], "true")
}

// start does the same after running the script there.
func (b below) start(how, script string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command("unshare", "--mount", "--propagation", how, "sh", "-ec", script+"\nexec sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for { // until the mount exists
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
		testkit.Must(b.t, err)
		if string(comm) == "sleep\n" {
			return cmd
		}
		time.Sleep(time.Millisecond)
	}
}

// all returns the mounts of all namespaces whose mount points contain the text.
func (b below) all(text string, pids ...int) (found []string) {
	for _, pid := range append(pids, os.Getpid()) {
		mounts, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
		testkit.Must(b.t, err)
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); strings.Contains(f[4], text) {
				found = append(found, f[0])
			}
		}
	}
	return found
}

// TestBelowCopies checks that copies in a peer and in a slave namespace belong to the pod and disappear with its
// mount. A copy in a private namespace, or a bind mount of the volume elsewhere, prevents the unmount.
func TestBelowCopies(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	testkit.NeedCommand(t, "unshare")
	b := newBelow(t)
	slave, peer := b.namespace(unix.MS_SLAVE), b.namespace(unix.MS_SHARED)
	b.mount("mem", b.dir+"/volumes/v")
	testkit.Must(t, os.Mkdir(b.dir+"/volumes/v/in", 0o755))
	b.mount("in", b.dir+"/volumes/v/in")
	p := b.read()
	if p.Outside.Truth != policy.No || len(p.Mounts) != 2 || p.Mounts[0].Path != "volumes/v/in" || p.Mounts[0].Source != "in" {
		t.Fatalf("%+v", p)
	}
	for _, m := range p.Mounts {
		if len(m.Copies) != 2 || len(m.Shares) > 0 {
			t.Errorf("%+v", m)
		}
	}
	// Exactly the listed mounts are unmounted.
	before := b.all("/volumes/v/in", slave.Process.Pid, peer.Process.Pid)
	testkit.Must(t, unix.Unmount(b.dir+"/volumes/v/in", 0))
	shown := []string{strconv.FormatUint(p.Mounts[0].ID, 10)}
	for _, id := range p.Mounts[0].Copies {
		shown = append(shown, strconv.FormatUint(id, 10))
	}
	slices.Sort(shown)
	if slices.Sort(before); !slices.Equal(shown, before) || len(b.all("/volumes/v/in", slave.Process.Pid, peer.Process.Pid)) > 0 {
		t.Errorf("listed %q, want %q", shown, before)
	}
	private := b.namespace(unix.MS_PRIVATE)
	if p = b.read(); p.Outside.Truth != policy.Yes || len(p.Mounts) != 1 {
		t.Errorf("private copy: %+v", p)
	}
	testkit.Must(t, private.Process.Kill())
	_ = private.Wait()
	elsewhere := b.root + "/../elsewhere"
	testkit.Must(t, os.Mkdir(elsewhere, 0o755))
	b.mount(b.dir+"/volumes", elsewhere)
	if p = b.read(); p.Outside.Truth != policy.Yes {
		t.Errorf("bind-mounted elsewhere: %+v", p)
	}
}

// TestBelowShares checks that a bind mount of a node's directory, a peer of the node's own mount, is reported: a
// mount in it would be unmounted at the node's path, too. The test shows that this happens.
func TestBelowShares(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	b := newBelow(t)
	data := strings.TrimSuffix(b.root, "kubelet") + "data"
	b.mount(data, b.dir+"/volumes/v")
	b.mount("live", data+"/in")
	p := b.read()
	if len(p.Mounts) != 2 || p.Outside.Truth != policy.No {
		t.Fatalf("%+v", p)
	}
	if in := p.Mounts[0]; in.Path != "volumes/v/in" || len(in.Shares) != 1 || in.Shares[0] != data+"/in" {
		t.Errorf("%+v", in)
	}
	if len(p.Mounts[1].Shares) > 0 {
		t.Errorf("mount on the pods directory's mount: %+v", p.Mounts[1])
	}
	testkit.Must(t, unix.Unmount(b.dir+"/volumes/v/in", 0))
	if testkit.MountAt(t, data+"/in") != "" { // the loss that Shares prevents
		t.Error("the node's own mount was not unmounted")
	}
	p.KeepMounts(nil, nil)
	if len(p.Todo()) > 0 {
		t.Errorf("%+v", p.Mounts)
	}
}

// TestBelowSlaves checks that a shared slave propagates to its own peers and slaves, so an unmount removes what is
// mounted there. A living process's own mount there prevents the unmount.
func TestBelowSlaves(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	testkit.NeedCommand(t, "unshare")
	for name, script := range map[string]string{
		"a slave of a slave": `mount --make-rshared /; mount --rbind $V $D; mount --make-rslave $D; umount $D/c; mount -t tmpfs own $D/c`,
		"on a copy":          `umount $V/c; mount -t tmpfs own $V/c`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBelow(t)
			b.mount("mem", b.dir+"/volumes/v")
			testkit.Must(t, os.Mkdir(b.dir+"/volumes/v/c", 0o755))
			b.mount("child", b.dir+"/volumes/v/c")
			data := strings.TrimSuffix(b.root, "kubelet") + "data"
			cmd := b.start("slave", "V="+b.dir+"/volumes/v; D="+data+"; "+script)
			p := b.read()
			if p.Outside.Truth != policy.No || len(p.Mounts) != 2 || len(p.Mounts[0].Shares) == 0 || len(p.Mounts[1].Shares) > 0 {
				t.Fatalf("%+v", p)
			}
			p.KeepMounts(nil, nil)
			if len(p.Todo()) > 0 {
				t.Errorf("%+v", p.Mounts)
			}
			testkit.Must(t, unix.Unmount(b.dir+"/volumes/v/c", 0))
			mounts, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/mountinfo")
			if err != nil || strings.Contains(string(mounts), " own ") { // the loss that Shares prevents
				t.Errorf("%v, %s", err, mounts)
			}
		})
	}
}

// TestReceivers checks that a peer group propagates to its slaves and theirs, also if no process shows its own
// master.
func TestReceivers(t *testing.T) {
	g := collector{links: map[link]bool{
		{"shared:2", "shared:1", "0:5"}: true, {"shared:3", "shared:2", "0:5"}: true, {"", "shared:3", "0:5"}: true, {"shared:1", "", "0:5"}: true,
		{"shared:8", "shared:7", "0:5"}: true, {"shared:7", "", "0:5"}: true, {"", "shared:9", "0:5"}: true, {"", "shared:6", "0:4"}: true,
	}}
	got := slices.Sorted(maps.Keys(g.receivers("shared:1", "0:5")))
	if want := []string{"shared:1", "shared:2", "shared:3", "shared:9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBelowHidden checks that mounts hidden by the kubelet's bind mount of its root on itself are copies and not
// listed twice.
func TestBelowHidden(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	b := newBelow(t)
	b.mount(b.root, b.root)
	b.mount("mem", b.dir+"/volumes/v")
	b.mount("top", b.dir+"/volumes/v")
	p := b.read()
	if p.Outside.Truth != policy.No || len(p.Mounts) != 2 || p.Mounts[0].Source != "top" || len(p.Mounts[0].Copies) != 1 || len(p.Mounts[1].Copies) != 1 {
		t.Errorf("%+v", p)
	}
	for range 2 {
		testkit.Must(t, unix.Unmount(b.dir+"/volumes/v", 0))
	}
	if left := b.all("/volumes/v"); len(left) > 0 {
		t.Errorf("mounts after the unmount: %q", left)
	}
}

// TestBelowUsers checks that another pod with a mount of the same CSI volume is a user of it, and a subPath of the
// same pod is not.
func TestBelowUsers(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	b := newBelow(t)
	global := b.root + "/plugins/kubernetes.io/csi/d/h/globalmount"
	other := b.root + "/pods/" + string(testkit.PodB) + "/volumes/kubernetes.io~csi/db/mount"
	for _, dir := range []string{global, other} {
		testkit.Must(t, os.MkdirAll(dir, 0o755))
	}
	b.mount("csi", global)
	b.mount(global, b.dir+"/volumes/kubernetes.io~csi/db/mount")
	b.mount(global, b.dir+"/volume-subpaths/v/app/0")
	users := func() (n int) {
		p := b.read()
		if p.Outside.Truth != policy.No || len(p.Mounts) != 2 {
			t.Fatalf("%+v", p)
		}
		for _, m := range p.Mounts {
			if len(m.Users) > 0 && (!m.CSI() || m.Users[0] != "pod "+string(testkit.PodB)) {
				t.Errorf("%+v", m)
			}
			n += len(m.Users)
		}
		return n
	}
	if n := users(); n != 0 {
		t.Errorf("%d users without another pod", n)
	}
	b.mount(global, other)
	if n := users(); n != 1 {
		t.Errorf("%d users", n)
	}
	testkit.Must(t, unix.Unmount(other, 0))
	testkit.NeedCommand(t, "unshare")
	cmd := b.start("private", "mount --bind "+global+" "+b.root+"/../data; umount "+b.dir+"/volumes/kubernetes.io~csi/db/mount "+b.dir+"/volume-subpaths/v/app/0")
	if p := b.read(); p.Outside.Truth != policy.No || !slices.ContainsFunc(p.Mounts, func(m policy.Mount) bool {
		return m.CSI() && len(m.Users) == 1 && strings.HasPrefix(m.Users[0], "PID "+strconv.Itoa(cmd.Process.Pid))
	}) {
		t.Errorf("process in its own namespace: %+v", p)
	}
	if got := b.Holders(t.Context(), b.read().Mounts[0]); len(got) > 0 {
		t.Errorf("held by %q", got)
	}
	f, err := os.Open(b.dir + "/" + b.read().Mounts[0].Path)
	testkit.Must(t, err)
	defer f.Close()
	if got := b.Holders(t.Context(), b.read().Mounts[0]); len(got) != 1 || !strings.HasPrefix(got[0], "PID "+strconv.Itoa(os.Getpid())) {
		t.Errorf("held by %q", got)
	}
}

// TestBelowUsersOfOneDisk checks that another directory of the same file system is another volume, and that the same
// directory or a part of it is the same volume.
func TestBelowUsersOfOneDisk(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	b := newBelow(t)
	disk := b.root + "/../disk"
	other := b.root + "/pods/" + string(testkit.PodB) + "/volumes/kubernetes.io~csi/db/mount"
	for _, dir := range []string{disk + "/one/part", disk + "/one-more", other} {
		testkit.Must(t, os.MkdirAll(dir, 0o755))
	}
	b.mount(disk+"/one", b.dir+"/volumes/kubernetes.io~csi/db/mount")
	for dir, want := range map[string]int{"one-more": 0, "one": 1, "one/part": 1, ".": 1} {
		b.mount(disk+"/"+dir, other)
		if p := b.read(); p.Outside.Truth != policy.No || len(p.Mounts) != 1 || len(p.Mounts[0].Users) != want {
			t.Errorf("%s: want %d users: %+v", dir, want, p)
		}
		testkit.Must(t, unix.Unmount(other, 0))
	}
}

// TestBelowElsewhere checks that a process in another mount namespace than the node's is refused.
func TestBelowElsewhere(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	b := newBelow(t)
	p := b.Below(t.Context(), testkit.PodA, nil, false)
	if p.Outside.Truth != policy.Unknown || !strings.Contains(p.Outside.Detail, "not in the mount namespace of PID 1") {
		t.Errorf("%+v", p)
	}
}
