package openfiles

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// stray is a file of the pods' file system that something holds, and whose path names no pod.
// It is a pod's where the walk of the pod met its inode.
type stray struct {
	process, path, what string
	// sure says that the inode is known by the device and the numbers that the pods have. A btrfs
	// has one device for all of its subvolumes in some places, and each of them has the same inode
	// numbers; an overlay has two numbers for a file.
	sure bool
}

// mostStrays bounds what is remembered in one look.
const mostStrays = 100_000

var errStrays = errors.New("processes hold more files of the pods' file system than are looked at")

func (a *Answer) stray(id inode, held stray) {
	switch _, known := a.strays[id]; {
	case known:
	case len(a.strays) >= mostStrays:
		a.Err = errStrays
	default:
		a.strays[id] = held
	}
}

// device is what is known of a device of the pods' files.
type device struct {
	stat uint64 // as statx gives it
	// numbers is true where /proc gives the inode numbers that statx gives. An overlay has others
	// in its memory, and they may be those of any of its files.
	numbers bool
}

// devicesOf returns the devices under which /proc shows the files of directories. They differ
// from those of statx on btrfs and overlay, whose devices have the major number 0.
func devicesOf(procDir string, dirs ...*bounded.Handle) map[uint64]device {
	devs := map[uint64]device{}
	for _, h := range dirs {
		if h == nil {
			continue
		}
		st, err := beneath.Stat(h.FD)
		if err != nil {
			continue
		}
		var fs unix.Statfs_t
		overlay := unix.Fstatfs(h.FD, &fs) != nil || fs.Type == unix.OVERLAYFS_SUPER_MAGIC
		devs[beneath.DevOf(&st)] = device{beneath.DevOf(&st), !overlay}
		if st.Dev_major == 0 {
			if dev, ok := mountDevice(procDir, st.Mnt_id); ok && devs[dev] == (device{}) {
				devs[dev] = device{beneath.DevOf(&st), false}
			}
		}
	}
	return devs
}

// mountDevice is the device that mountinfo has for a mount of our namespace.
func mountDevice(procDir string, id uint64) (dev uint64, ok bool) {
	err := procfs.EachMountOf(procDir, "self", func(l *procfs.MountLine) error {
		if n, is := l.Number(); !is || n != id {
			return nil
		}
		major, minor, _ := bytes.Cut(l.Dev, []byte{':'})
		a, err := strconv.ParseUint(string(major), 10, 32)
		b, err2 := strconv.ParseUint(string(minor), 10, 32)
		dev, ok = unix.Mkdev(uint32(a), uint32(b)), errors.Join(err, err2) == nil
		return io.EOF
	})
	return dev, ok && errors.Is(err, io.EOF)
}

// addStrays adds the strays that the walk met. Where the walk was not whole, the rest is no
// doubt: otherwise any process with a file open would keep every big pod of that file system.
func (a *Answer) addStrays(u *reading.FileUse, w *Walked) {
	for _, ino := range w.Inodes {
		id := inode{w.Dev, ino}
		held, ok := a.strays[id]
		if !ok {
			continue
		}
		truth := policy.Yes
		if !held.sure {
			truth = a.places.leads(held.process, held.path, id)
		}
		switch truth {
		case policy.Yes:
			u.User = held.words(a.procDir)
			return
		case policy.Unknown:
			u.Stray = held.words(a.procDir) + ", and it is not known whether that is this pod's"
		case policy.No:
		}
	}
}

func (h stray) words(procDir string) string {
	if h.process == "" {
		return h.what
	}
	return "PID " + procfs.Who(procDir, h.process) + " has " + clean.Name(h.path) + " as " + h.what
}
