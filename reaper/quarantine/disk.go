package quarantine

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
)

// disk has the system calls that change the disk or the mounts. Each takes a directory that is held open and one name in
// it. No other code of the package makes such a call; a test puts a recorder, an attacker or a killer in its place.
type disk interface {
	mkdir(parent *fdpath.Dir, name string) error
	chmod(dir *fdpath.Dir, mode uint32) error
	create(dir *fdpath.Dir, name string, text []byte) error
	unlink(dir *fdpath.Dir, name string) error
	rmdir(dir *fdpath.Dir, name string) error
	rename(from *fdpath.Dir, name string, to *fdpath.Dir, as string, flags uint) error
	sync(dir *fdpath.Dir) error
	unmount(dir *fdpath.Dir, name string) error
}

// kernel is the disk outside of tests.
type kernel struct{}

func (kernel) mkdir(parent *fdpath.Dir, name string) error {
	return fdpath.Uninterrupted(func() error { return unix.Mkdirat(parent.FD(), name, 0o700) })
}

func (kernel) chmod(dir *fdpath.Dir, mode uint32) error {
	return fdpath.Uninterrupted(func() error { return unix.Fchmod(dir.FD(), mode) })
}

// create makes a file with this content. It fails if the name exists.
func (kernel) create(dir *fdpath.Dir, name string, text []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := fdpath.Retry(func() (int, error) { return unix.Openat(dir.FD(), name, flags, 0o600) })
	if err != nil {
		return err
	}
	for len(text) > 0 && err == nil {
		var n int
		n, err = fdpath.Retry(func() (int, error) { return unix.Write(fd, text) })
		text = text[max(n, 0):]
	}
	// A full file system may report that only at close (NFS, quota).
	if e := unix.Close(fd); err == nil && !errors.Is(e, unix.EINTR) {
		err = e
	}
	return err
}

func (kernel) unlink(dir *fdpath.Dir, name string) error {
	return fdpath.Uninterrupted(func() error { return unix.Unlinkat(dir.FD(), name, 0) })
}

// Unlink removes a name that is no directory. It is for package cni, so that this file has all calls that remove something.
func Unlink(dir *fdpath.Dir, name string) error { return kernel{}.unlink(dir, name) }

func (kernel) rmdir(dir *fdpath.Dir, name string) error {
	return fdpath.Uninterrupted(func() error { return unix.Unlinkat(dir.FD(), name, unix.AT_REMOVEDIR) })
}

func (kernel) rename(from *fdpath.Dir, name string, to *fdpath.Dir, as string, flags uint) error {
	return fdpath.Uninterrupted(func() error { return unix.Renameat2(from.FD(), name, to.FD(), as, flags) })
}

func (kernel) sync(dir *fdpath.Dir) error {
	return fdpath.Uninterrupted(func() error { return unix.Fsync(dir.FD()) })
}

// unmount detaches the topmost mount at the name if nothing uses it, never lazily (MNT_DETACH) or by force (MNT_FORCE).
// umount2(2) takes a path, so dir becomes the working directory of the calling thread, which must have its own
// (unshare(CLONE_FS)). It is left again, since a working directory keeps its mount busy. umount2 is called once: a second
// call would detach the mount below.
func (kernel) unmount(dir *fdpath.Dir, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return unix.EINVAL
	}
	if err := fdpath.Uninterrupted(func() error { return unix.Fchdir(dir.FD()) }); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/") }()
	return unix.Unmount(name, unix.UMOUNT_NOFOLLOW)
}
