package removal

import (
	"errors"
	"io/fs"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cname is one name of a directory entry with the NUL that the kernel wants at its end.
// It holds any byte but slash and NUL.
type cname string

// cstring makes a cname of a name that has been validated or that the kernel gave us.
func cstring(name string) cname { return cname(name + "\x00") }

// String returns the name without the NUL.
func (c cname) String() string { return string(c[:len(c)-1]) }

func (c cname) ptr() *byte { return unsafe.StringData(string(c)) }

// The calls below are made by hand because the wrappers of x/sys copy each name: a large
// directory is read into one buffer, and its names go from there straight to the kernel.
// They are Syscall and never RawSyscall: a call that hangs must not stop the whole runtime.

// retry repeats a call that a signal interrupted. The runtime sends itself signals to
// preempt goroutines, and FUSE answers them with EINTR (go.dev/issue/38033).
func retry(call func() unix.Errno) error {
	for range 64 {
		if e := call(); e == 0 {
			return nil
		} else if e != unix.EINTR {
			return e
		}
	}
	return unix.EINTR
}

func unlinkat(dirfd int, name *byte, flags int) error {
	return retry(func() unix.Errno {
		_, _, e := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dirfd), uintptr(unsafe.Pointer(name)), uintptr(flags))
		return e
	})
}

// statFlags never waits for a network or FUSE server and never triggers an automount: of
// all ways to stat a name, this one was seen to return on a dead mount.
const statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC

func statx(dirfd int, name *byte, flags, mask int, st *unix.Statx_t) error {
	return retry(func() unix.Errno {
		_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dirfd), uintptr(unsafe.Pointer(name)),
			uintptr(flags), uintptr(mask), uintptr(unsafe.Pointer(st)), 0)
		return e
	})
}

func openat(dirfd int, name cname, flags int) (int, error) {
	fd := -1
	err := retry(func() unix.Errno {
		r, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(name.ptr())),
			uintptr(flags), 0, 0, 0)
		fd = int(r)
		return e
	})
	return fd, err
}

func openat2(dirfd int, name cname, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	fd := -1
	err := retry(func() unix.Errno {
		r, _, e := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(name.ptr())),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		fd = int(r)
		return e
	})
	return fd, err
}

func getdents(fd int, buf []byte) (int, error) {
	n := 0
	err := retry(func() unix.Errno {
		r, _, e := unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
		n = int(r)
		return e
	})
	return n, err
}

func fstat(fd int, st *unix.Stat_t) error {
	return retry(func() unix.Errno { return errno(unix.Fstat(fd, st)) })
}

func fsync(fd int) error {
	return retry(func() unix.Errno { return errno(unix.Fsync(fd)) })
}

// errno turns an error of x/sys, which is always an Errno, back into one.
func errno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return unix.EIO
}

// is says whether err is one of the given. An error of our own is none.
func is(err error, these ...unix.Errno) bool {
	e, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(these, e)
}

// closeFD closes a descriptor that was only read through. close(2) on Linux frees the
// number whatever it returns, so there is nothing to repeat and nothing to report.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// pathError says which call failed on what. The path is for people and goes to no call.
func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}
