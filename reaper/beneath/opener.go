package beneath

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// What a step may open; doc.go has the purpose of each flag.
const (
	// ReadDir opens a directory to list it.
	ReadDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOATIME
	// OPathDir opens a handle of a directory to compare its identity later.
	OPathDir = OPath | unix.O_DIRECTORY
	// OPath opens a handle of a file of any type, also a symbolic link or device.
	OPath = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	// ReadRegular opens a regular file that StatName has just shown; see RootFile.
	ReadRegular = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOATIME

	// resolveDown is for a step down, resolveUp for "..", which BENEATH refuses.
	resolveDown = unix.RESOLVE_BENEATH | resolveUp
	resolveUp   = unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// Opener opens one name at a time. New sets its fields, and they never change.
type Opener struct {
	// fallback is why openat2 is not used, nil if it is used for every step.
	fallback error
	down, up uint64
	same     func(a, b int) (bool, error)
}

// New tests whether the kernel has openat2 and whether it stops at a mount. The kernel's version is no
// evidence: distributions backport openat2, and a seccomp filter hides it (RestrictSUIDSGID= makes it ENOSYS on
// systemd 252 and 257, EPERM on 247). noOpenat2 is for tests of the fallback.
func New(noOpenat2 bool) (*Opener, error) {
	o := &Opener{down: resolveDown, up: resolveUp, same: sameMount}
	root, err := unix.Open("/", OPathDir, 0)
	if err != nil {
		return nil, PathError("open", "/", err)
	}
	defer Close(root)
	if noOpenat2 {
		o.fallback = errors.New("it was turned off")
	} else {
		o.fallback = o.stopsAtMounts(root)
	}
	if o.fallback != nil {
		if err := o.stopsAtMounts(root); err != nil {
			return nil, fmt.Errorf("cannot distinguish mounts: neither openat2 (%w) nor mount IDs (%w) work here", o.fallback, err)
		}
	}
	return o, nil
}

// stopsAtMounts returns an error unless the flags of a step stop it at a mount. It tries a step down to a name that is nearly
// always a mount, one up from there, and one out of root. It recognizes a mount by its device, since statx has
// STATX_ATTR_MOUNT_ROOT only since Linux 5.8. If none of the names is a mount (a bare chroot), it is enough that "." opens.
func (o *Opener) stopsAtMounts(root int) error {
	fd, err := o.step(root, ".", OPathDir)
	if err != nil {
		return err
	}
	defer Close(fd)
	if o.fallback == nil {
		if err := refuses(o.open(root, "..", OPathDir, o.down)); err != nil {
			return PathError("openat2", "..", err)
		}
	}
	at, err := Stat(root)
	if err != nil {
		return PathError("statx", "/", err)
	}
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		mount, err := unix.Openat(root, name, OPathDir, 0)
		if err != nil {
			continue
		}
		defer Close(mount)
		if st, err := Stat(mount); err != nil || DevOf(&st) == DevOf(&at) {
			continue
		}
		if err := refuses(o.step(root, name, OPathDir)); err != nil {
			return PathError("open", "/"+name, err)
		}
		if err := refuses(o.resolve(mount, "..", ReadDir, o.up)); err != nil {
			return PathError("open", "/"+name+"/..", err)
		}
		return nil
	}
	return nil
}

var errCrosses = errors.New("it was opened although it is on another mount or above")

// refuses returns nil if a step ended with EXDEV.
func refuses(fd int, err error) error {
	switch {
	case err == nil:
		Close(fd)
		return errCrosses
	case errors.Is(err, unix.EXDEV):
		return nil
	}
	return err
}

// Fallback returns why openat2 is not used, nil if it is used.
func (o *Opener) Fallback() error { return o.fallback }

// step opens name, one name and not "..", below the directory parent. EXDEV: it is a mount point. ENOTDIR,
// ELOOP: it is not a directory. If that cannot be determined, the error wraps no errno.
func (o *Opener) step(parent int, name string, flags int) (int, error) {
	if err := oneName(name); err != nil {
		return -1, err
	}
	return o.resolve(parent, name, flags, o.down)
}

func oneName(name string) error {
	if name == "" || name == ".." || strings.ContainsAny(name, "/\x00") {
		return unix.EINVAL
	}
	return nil
}

func (o *Opener) resolve(dirfd int, name string, flags int, resolve uint64) (int, error) {
	fd, err := o.open(dirfd, name, flags, resolve)
	if errors.Is(err, unix.EPERM) && flags&unix.O_NOATIME != 0 {
		// open(2): O_NOATIME is for the owner and CAP_FOWNER.
		fd, err = o.open(dirfd, name, flags&^unix.O_NOATIME, resolve)
	}
	return fd, err
}

func (o *Opener) open(dirfd int, name string, flags int, resolve uint64) (int, error) {
	if o.fallback != nil {
		return o.byMountID(dirfd, name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve} // flags are ours
	return Retry(func() (int, error) { return unix.Openat2(dirfd, name, &how) })
}

// byMountID is the fallback without openat2. Its first open has no O_DIRECTORY, which would trigger an automount
// (LOOKUP_DIRECTORY). The open of "." fails with ENOTDIR if the handle is not of a directory.
func (o *Opener) byMountID(dirfd int, name string, flags int) (int, error) {
	handle, err := Retry(func() (int, error) { return unix.Openat(dirfd, name, OPath, 0) })
	if err != nil {
		return -1, err
	}
	same, err := o.same(dirfd, handle)
	if err == nil && !same {
		err = unix.EXDEV
	}
	if err != nil {
		Close(handle)
		return -1, err
	}
	if flags == OPath {
		return handle, nil
	}
	defer Close(handle)
	if flags&unix.O_DIRECTORY == 0 {
		st, err := Stat(handle)
		if err == nil {
			err = regular(&st)
		}
		if err != nil {
			return -1, err
		}
		return reopen(handle)
	}
	return Retry(func() (int, error) { return unix.Openat(handle, ".", flags, 0) })
}
