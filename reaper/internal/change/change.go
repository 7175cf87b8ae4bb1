// Package change has the system calls that unlink, rename and unmount, and those that create and write the files beside
// moved entries. Nothing else may call them (.golangci.yml), and only removal, cni/remove and unmount may import this
// package (packaging/checks/layers_test.go). Each function takes a directory that is held open and one name in it.
//
// The package decides nothing and opens no existing file.
package change

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// Unlinkat removes a name, or with AT_REMOVEDIR an empty directory.
func Unlinkat(dir *beneath.Dir, name string, flags int) error {
	return beneath.Uninterrupted(func() error { return unix.Unlinkat(dir.FD(), name, flags) })
}

// Renameat2 renames a name in one directory to another name, or into another directory.
func Renameat2(from *beneath.Dir, name string, to *beneath.Dir, as string, flags uint) error {
	return beneath.Uninterrupted(func() error { return unix.Renameat2(from.FD(), name, to.FD(), as, flags) })
}

// Fsync syncs a file or a directory.
func Fsync(fd int) error {
	return beneath.Uninterrupted(func() error { return unix.Fsync(fd) })
}

// Create creates a file for Write. It fails if the name exists.
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

// Close closes a file that was written, and returns err, the error of the writes, or else its own: a full file system may
// report that only at close (NFS, quota).
func Close(fd int, err error) error {
	if e := unix.Close(fd); err == nil && e != nil && !errors.Is(e, unix.EINTR) {
		err = e
	}
	return err
}

// SetModTime sets the modification time of an open file. utimensat(2) without a path applies to the descriptor; x/sys has no
// function for that.
func SetModTime(fd int, at time.Time) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at.Unix(), Nsec: int64(at.Nanosecond())}}
	return beneath.Uninterrupted(func() error {
		if _, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0); e != 0 {
			return e
		}
		return nil
	})
}

// Unmount detaches the topmost mount at the name if nothing uses it, never lazily (MNT_DETACH) or by force (MNT_FORCE).
// umount2(2) takes a path, so dir becomes the working directory of the calling thread, which must have its own
// (unshare(CLONE_FS)). Unmount leaves it again, since a working directory keeps its mount busy. It calls umount2 once: a
// second call would detach the mount below.
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
