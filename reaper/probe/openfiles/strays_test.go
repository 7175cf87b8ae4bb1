package openfiles

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestOverlayNumbers: /proc/PID/maps has other inode numbers for an overlay's files than statx. They alone must not
// show that a file is a pod's: a daemon with its program on the same overlay kept a pod in use forever.
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
		for dev, sure := range devicesOf(bounded.NewHandle(fd)) {
			if sure != numbers {
				t.Errorf("%s: device %x: sure %t", dir, dev, sure)
			}
		}
	}
}
