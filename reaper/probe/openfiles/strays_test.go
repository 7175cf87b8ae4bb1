package openfiles

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestOverlayNumbers: /proc/PID/maps has other inode numbers for the files of an overlay than
// statx. They alone must not say that a file is a pod's: a daemon whose own program lay on the same
// overlay kept a pod in use for ever.
func TestOverlayNumbers(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	n.Mkdir("base")
	must(t, unix.Mount("t", n.Path("base"), "tmpfs", 0, ""))
	n.Mkdir("base/lower", "base/up", "base/work", "over")
	opts := "lowerdir=" + n.Path("base/lower") + ",upperdir=" + n.Path("base/up") + ",workdir=" + n.Path("base/work")
	must(t, unix.Mount("o", n.Path("over"), "overlay", 0, opts))
	t.Cleanup(func() {
		_ = unix.Unmount(n.Path("over"), unix.MNT_DETACH)
		_ = unix.Unmount(n.Path("base"), unix.MNT_DETACH)
	})
	for dir, numbers := range map[string]bool{"base": true, "over": false} {
		fd, err := unix.Open(n.Path(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		for dev, d := range devicesOf("/proc", bounded.NewHandle(fd)) {
			if d.numbers != numbers {
				t.Errorf("%s: device %x is %+v", dir, dev, d)
			}
		}
	}
}

// TestStrayWhereProcessesHang: what is mapped is known although the open files are not, and a file of
// which the number alone does not tell is followed by its path.
func TestStrayWhereProcessesHang(t *testing.T) {
	n, uid, other := newNode(t), newUID(), newUID()
	n.Write(n.PodDir(uid)+"/f", "x")
	n.Write(n.PodDir(other)+"/f", "x")
	must(t, os.Link(n.Path(n.PodDir(uid)+"/f"), n.Path("link")))
	stick(t, n.Guard, "processes")
	a := n.read()
	process := strconv.Itoa(child(t, nil, "/", ""))
	for _, pod := range []string{n.PodDir(uid), n.PodDir(other)} {
		st, err := beneath.StatName(unix.AT_FDCWD, n.Path(pod+"/f"))
		must(t, err)
		a.stray(idOf(&st), stray{process: process, path: n.Path("link"), what: "a mapped file"})
	}
	n.want(a, uid, policy.Yes, n.Path("link")+" as a mapped file")
	n.want(a, other, policy.Unknown, "cannot read the processes")
}
