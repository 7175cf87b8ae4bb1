// Package change has the system calls that unlink, rename and unmount, and that make and write the files beside what
// they moved: no other room that changes the node may call them (.golangci.yml), and only removal, cni/remove and unmount import
// this. Directories are made by removal itself. Each takes a directory that is held open and one name in it. It decides nothing, and
// opens nothing that is there already.
package change

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// Unlinkat removes the name: a directory with AT_REMOVEDIR, where it is empty.
func Unlinkat(dir *beneath.Dir, name string, flags int) error {
	return beneath.Uninterrupted(func() error { return unix.Unlinkat(dir.FD(), name, flags) })
}

// Renameat2 moves a name from one directory to another, or within one.
func Renameat2(from *beneath.Dir, name string, to *beneath.Dir, as string, flags uint) error {
	return beneath.Uninterrupted(func() error { return unix.Renameat2(from.FD(), name, to.FD(), as, flags) })
}

// Fsync syncs a file, or the names in a directory.
func Fsync(fd int) error {
	return beneath.Uninterrupted(func() error { return unix.Fsync(fd) })
}

// Create makes a file that is not there, for Write.
func Create(dir *beneath.Dir, name string) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	return beneath.Retry(func() (int, error) { return unix.Openat(dir.FD(), name, flags, 0o600) })
}

// Write writes all of p.
func Write(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := beneath.Retry(func() (int, error) { return unix.Write(fd, p) })
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Close closes a file that was written, err being what the writing came to, and returns the
// first error: a full file system may say so at close only (NFS, quota).
func Close(fd int, err error) error {
	if e := unix.Close(fd); err == nil && e != nil && !errors.Is(e, unix.EINTR) {
		err = e
	}
	return err
}

// SetModTime sets the modification time of a file that is open. utimensat(2) without a path is
// of the descriptor itself; x/sys has no call for it.
func SetModTime(fd int, at time.Time) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at.Unix(), Nsec: int64(at.Nanosecond())}}
	return beneath.Uninterrupted(func() error {
		if _, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0); e != 0 {
			return e
		}
		return nil
	})
}

// Unmount detaches the topmost mount at the name, if nothing uses it. It never detaches one that is busy (MNT_DETACH) and
// never has a server give up (MNT_FORCE). umount2(2) takes a path, so the directory becomes the working directory of the
// calling thread, which must have one of its own (unshare(CLONE_FS)). It is left before Unmount returns: a working
// directory keeps its mount busy. The call is made once: a second one would detach what was below.
func Unmount(dir *beneath.Dir, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return unix.EINVAL
	}
	if err := beneath.Uninterrupted(func() error { return unix.Fchdir(dir.FD()) }); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/") }()
	return unix.Unmount(name, unix.UMOUNT_NOFOLLOW)
}
