package removal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// readDir opens a directory to list it. O_NONBLOCK is for the moment in which the name
	// has become a FIFO or a device: without it, open waits for the other end.
	readDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOATIME
	// holdDir opens a directory to know it again; the file system is not asked.
	holdDir = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	// readFile opens a regular file that has been looked at before.
	readFile = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

	// resolveDown is for a step down, resolveUp for "..", which BENEATH forbids.
	resolveDown = unix.RESOLVE_BENEATH | resolveUp
	resolveUp   = unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// opener takes one step in the tree and never onto another mount: that is EXDEV, in both
// of its ways. Its fields are set by newOpener and never change.
type opener struct {
	openat2  bool  // else by O_PATH and mount ID
	why      error // why there is no openat2
	down, up uint64
	same     func(a, b int) bool // whether two descriptors are on one mount; doubt is no
}

// newOpener asks the kernel whether openat2 is there and stops at a mount. The kernel's
// version does not tell: distributions backport it, and a seccomp filter takes it away
// again (RestrictSUIDSGID= makes it ENOSYS on systemd 252 and 257, EPERM on 247).
func newOpener(noOpenat2 bool) (*opener, error) {
	o := &opener{openat2: !noOpenat2, down: resolveDown, up: resolveUp, same: sameMount}
	root, err := openat(unix.AT_FDCWD, cstring("/"), holdDir)
	if err != nil {
		return nil, pathError("open", "/", err)
	}
	defer closeFD(root)
	if noOpenat2 {
		o.why = errors.New("it was not asked for")
	} else if o.why = o.stopsAtMounts(root); o.why != nil {
		o.openat2 = false
	}
	if !o.openat2 {
		if err := o.stopsAtMounts(root); err != nil {
			return nil, fmt.Errorf("cannot tell mounts apart: neither openat2 (%w) nor mount IDs (%w) work here", o.why, err)
		}
	}
	return o, nil
}

// stopsAtMounts tries the opener on what is nearly always a mount. Where none of them is
// one (a bare chroot), that it opens "." must do.
func (o *opener) stopsAtMounts(root int) error {
	fd, err := o.dir(root, cstring("."), holdDir)
	if err != nil {
		return err
	}
	closeFD(fd)
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		c := cstring(name)
		var st unix.Statx_t
		if statx(root, c.ptr(), statFlags, unix.STATX_TYPE, &st) != nil ||
			st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
			continue
		}
		fd, err := o.dir(root, c, holdDir)
		if err == nil {
			closeFD(fd)
			return fmt.Errorf("it does not stop at the mount /%s", name)
		}
		if !errors.Is(err, unix.EXDEV) {
			return pathError("open", "/"+name, err)
		}
		return nil
	}
	return nil
}

// dir opens the directory name in parent. EXDEV: it is on another mount. ENOTDIR or ELOOP:
// it is no directory.
func (o *opener) dir(parent int, name cname, flags int) (int, error) {
	return o.step(parent, name, flags, o.down)
}

// parent opens the directory that the directory child hangs in. A mount that covers it by
// now is EXDEV as well.
func (o *opener) parent(child int) (int, error) {
	return o.step(child, "..\x00", readDir, o.up)
}

func (o *opener) step(dirfd int, name cname, flags int, resolve uint64) (int, error) {
	fd, err := o.once(dirfd, name, flags, resolve)
	if errors.Is(err, unix.EPERM) && flags&unix.O_NOATIME != 0 {
		// open(2): O_NOATIME is for the owner and CAP_FOWNER.
		fd, err = o.once(dirfd, name, flags&^unix.O_NOATIME, resolve)
	}
	return fd, err
}

func (o *opener) once(dirfd int, name cname, flags int, resolve uint64) (int, error) {
	if !o.openat2 {
		return o.byMountID(dirfd, name, flags)
	}
	// openat2(2): EAGAIN where a rename or mount anywhere on the system came in between.
	for range 64 {
		fd, err := openat2(dirfd, name, flags, resolve)
		if !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// byMountID is the way without openat2. The O_PATH handle is bound to one mount and one
// directory for good; "." from it stays there whatever is mounted over the name meanwhile.
// O_DIRECTORY is not in the first open: it would trigger an automount (path_lookup(7),
// LOOKUP_DIRECTORY). A link or a file gives ENOTDIR at the second.
func (o *opener) byMountID(dirfd int, name cname, flags int) (int, error) {
	at, err := openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer closeFD(at)
	if !o.same(dirfd, at) {
		return -1, unix.EXDEV
	}
	return openat(at, ".\x00", flags)
}

// file opens a regular file that statx has just shown in parent, to read it. Without
// openat2 the mount is compared after the open: reading is all that can come of it.
func (o *opener) file(parent int, name cname) (int, error) {
	if o.openat2 {
		return o.step(parent, name, readFile, o.down)
	}
	fd, err := openat(parent, name, readFile)
	if err != nil {
		return -1, err
	}
	if !o.same(parent, fd) {
		closeFD(fd)
		return -1, unix.EXDEV
	}
	return fd, nil
}
