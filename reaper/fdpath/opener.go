package fdpath

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// What a step may open; doc.go has the purpose of each flag.
const (
	// readDir opens a directory to list it.
	readDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOATIME
	// readFile opens a regular file to read it.
	readFile = readDir &^ unix.O_DIRECTORY
	// pathDir opens a handle of a directory to compare its identity later.
	pathDir = pathAny | unix.O_DIRECTORY
	// pathAny opens a handle of a file of any type, also a symbolic link or device.
	pathAny = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	resolveStep = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// Opener opens one name at a time. New sets its fields, and they never change.
type Opener struct {
	// fallback is why openat2 is not used, nil if it is used for every step.
	fallback error
	flags    uint64 // of openat2's resolve
	same     func(a, b int) (bool, error)
}

// New tests whether the kernel has openat2 and whether it stops at a mount. The kernel's version is no evidence:
// distributions backport openat2, and a seccomp filter hides it (RestrictSUIDSGID= makes it ENOSYS on systemd 252 and 257,
// EPERM on 247). noOpenat2 is for tests of the fallback.
func New(noOpenat2 bool) (*Opener, error) {
	o := &Opener{flags: resolveStep, same: sameMount}
	root, err := unix.Open("/", pathDir, 0)
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

// Fallback returns why openat2 is not used, nil if it is used.
func (o *Opener) Fallback() error { return o.fallback }

// stopsAtMounts returns an error unless a step stops at a mount and at "..". It recognizes a mount by its device, since statx
// has STATX_ATTR_MOUNT_ROOT only since Linux 5.8. If none of the names is a mount (a bare chroot), it is enough that "."
// opens.
func (o *Opener) stopsAtMounts(root int) error {
	fd, err := o.step(root, ".", pathDir)
	if err != nil {
		return err
	}
	Close(fd)
	if o.fallback == nil {
		if err := refuses(o.open(root, "..", pathDir, o.flags)); err != nil {
			return PathError("openat2", "..", err)
		}
	}
	at, err := Stat(root)
	if err != nil {
		return PathError("statx", "/", err)
	}
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		st, err := statx(root, name, 0)
		if err != nil || DevOf(&st) == DevOf(&at) || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := refuses(o.step(root, name, pathDir)); err != nil {
			return PathError("open", "/"+name, err)
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

// step opens one name below the directory parent. EXDEV: it is a mount point. ENOTDIR, ELOOP: it is not a directory. If that
// cannot be determined, the error wraps no errno.
func (o *Opener) step(parent int, name string, flags int) (int, error) {
	return o.resolve(parent, name, flags, o.flags)
}

func (o *Opener) resolve(parent int, name string, flags int, resolve uint64) (int, error) {
	if name == "" || name == ".." || strings.ContainsAny(name, "/\x00") {
		return -1, unix.EINVAL
	}
	fd, err := o.open(parent, name, flags, resolve)
	if errors.Is(err, unix.EPERM) && flags&unix.O_NOATIME != 0 {
		// open(2): O_NOATIME is for the owner and CAP_FOWNER.
		fd, err = o.open(parent, name, flags&^unix.O_NOATIME, resolve)
	}
	return fd, err
}

func (o *Opener) open(parent int, name string, flags int, resolve uint64) (int, error) {
	if o.fallback != nil {
		return o.byMountID(parent, name, flags, resolve)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve} // flags are ours
	return Retry(func() (int, error) { return unix.Openat2(parent, name, &how) })
}

// byMountID is the fallback without openat2. Its first open has no O_DIRECTORY, which would trigger an automount
// (LOOKUP_DIRECTORY). The open of "." fails with ENOTDIR if the handle is not of a directory.
func (o *Opener) byMountID(parent int, name string, flags int, resolve uint64) (int, error) {
	handle, err := Retry(func() (int, error) { return unix.Openat(parent, name, pathAny, 0) })
	if err != nil {
		return -1, err
	}
	if resolve&unix.RESOLVE_NO_XDEV != 0 {
		same, err := o.same(parent, handle)
		if err == nil && !same {
			err = unix.EXDEV
		}
		if err != nil {
			Close(handle)
			return -1, err
		}
	}
	if flags == pathAny {
		return handle, nil
	}
	defer Close(handle)
	if flags&unix.O_DIRECTORY == 0 {
		return reopen(handle, flags)
	}
	return Retry(func() (int, error) { return unix.Openat(handle, ".", flags, 0) })
}
