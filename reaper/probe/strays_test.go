package probe

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// TestOverlayNumbers: /proc/PID/maps has other inode numbers for the files of an overlay than
// statx. They alone must not say that a file is a pod's: a daemon whose own program lay on the same
// overlay kept a pod in use for ever.
func TestOverlayNumbers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := newNode(t)
	n.mkdir("base")
	must(t, unix.Mount("t", n.path("base"), "tmpfs", 0, ""))
	n.mkdir("base/lower", "base/up", "base/work", "over")
	opts := "lowerdir=" + n.path("base/lower") + ",upperdir=" + n.path("base/up") + ",workdir=" + n.path("base/work")
	must(t, unix.Mount("o", n.path("over"), "overlay", 0, opts))
	t.Cleanup(func() {
		_ = unix.Unmount(n.path("over"), unix.MNT_DETACH)
		_ = unix.Unmount(n.path("base"), unix.MNT_DETACH)
	})
	for dir, numbers := range map[string]bool{"base": true, "over": false} {
		fd, err := unix.Open(n.path(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		for dev, d := range devicesOf("/proc", bounded.NewHandle(fd)) {
			if d.numbers != numbers {
				t.Errorf("%s: device %x is %+v", dir, dev, d)
			}
		}
	}
}
