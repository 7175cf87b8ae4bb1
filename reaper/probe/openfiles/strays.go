package openfiles

import (
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// stray is a mapped file, or the file of a loop device, on the pods' file system whose path names no pod.
// It is a pod's if the walk of the pod met its inode.
type stray struct{ process, path, what string }

// mostStrays bounds the strays of all processes that cannot reach the pods' directories. If one of these holds more, that is
// a doubt about its own pod, and all others are read.
const mostStrays = 100_000

// devicesOf returns the devices of directories by statx(2), and for each whether /proc/PID/maps shows the same device and
// inode numbers. In maps all subvolumes of a btrfs have one device, and each has the same inode numbers; an overlay shows
// numbers that another of its files may have.
func devicesOf(dirs ...*bounded.Handle) map[uint64]bool {
	devs := map[uint64]bool{}
	for _, h := range dirs {
		if h == nil {
			continue
		}
		st, err := beneath.Stat(h.FD)
		if err != nil {
			continue
		}
		var fs unix.Statfs_t
		tmpfs := unix.Fstatfs(h.FD, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
		devs[beneath.DevOf(&st)] = st.Dev_major != 0 || tmpfs
	}
	return devs
}

// user returns the user of a file that the walk met. An incomplete walk causes no doubt: otherwise any process
// with a mapped file would keep every big pod of that file system.
func (a *Answer) user(w *Walked) string {
	for _, ino := range w.Inodes {
		held, ok := a.strays[inode{w.Dev, ino}]
		switch {
		case !ok:
		case held.process == "":
			return held.what
		default:
			return "PID " + procfs.Who(a.procDir, held.process) + " has " + clean.Name(held.path) + " as " + held.what
		}
	}
	return ""
}
