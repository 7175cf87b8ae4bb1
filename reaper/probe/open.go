package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// errMount is what an opener returns for a name that is a mount point. Nothing was asked
// of the file system that is mounted there.
var errMount = fmt.Errorf("it is a mount point: %w", unix.EXDEV)

// resolve is how every step down is taken: not above the directory that is held, across
// no mount, through no symlink.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// retries bounds EAGAIN (openat2 gives it when a rename or mount raced with it) and EINTR.
const retries = 128

// opener opens one name below a held directory. With openat2 the kernel itself refuses
// mounts and symlinks inside the open; if openat2 works it is used for everything, and no
// failure of it is ever answered by the weaker way.
type opener struct {
	fallback bool
}

// newOpener asks the kernel for openat2: RHEL 8's 4.18 may have it, a seccomp filter may
// take it away (ENOSYS or EPERM, from RestrictSUIDSGID for one), so no version is read.
func newOpener() opener {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	fd, err := retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, ".", &how) })
	if err == nil {
		closeFD(fd)
	}
	return opener{fallback: errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.E2BIG)}
}

// dir opens the directory name below parent for reading. errMount: a mount point.
// ELOOP, ENOTDIR: no directory.
func (o opener) dir(parent int, name string) (int, error) {
	// Looking must not change the access time. O_NOATIME needs the owner or CAP_FOWNER.
	fd, err := o.at(parent, name, openDir|unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) {
		fd, err = o.at(parent, name, openDir)
	}
	if err != nil {
		return -1, pathError("open", name, err)
	}
	return fd, nil
}

// at opens name with flags, which for anything but a directory must hold O_PATH in the
// fallback.
func (o opener) at(parent int, name string, flags int) (int, error) {
	if name == "" || name == ".." || bytes.ContainsAny([]byte(name), "/\x00") {
		return -1, unix.EINVAL
	}
	if o.fallback {
		return openCompared(parent, name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	fd, err := retry(func() (int, error) { return unix.Openat2(parent, name, &how) })
	if errors.Is(err, unix.EXDEV) {
		return -1, errMount
	}
	return fd, err
}

// openCompared is the way without openat2: hold the name by O_PATH, which opens nothing,
// compare its mount with the parent's, and only then open the directory that is held.
func openCompared(parent int, name string, flags int) (int, error) {
	held, err := retry(func() (int, error) {
		return unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	same, err := sameMount(parent, held)
	if err == nil && !same {
		err = errMount
	}
	if err != nil {
		closeFD(held)
		return -1, err
	}
	if flags&unix.O_DIRECTORY == 0 {
		return held, nil
	}
	defer closeFD(held)
	st, err := statHandle(held)
	switch {
	case err != nil:
		return -1, err
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return -1, unix.ELOOP
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return -1, unix.ENOTDIR
	case flags&unix.O_PATH != 0:
		return retry(func() (int, error) { return unix.Dup(held) })
	}
	return retry(func() (int, error) { return unix.Openat(held, ".", flags, 0) })
}

// sameMount compares by one source for both: what the kernel has to say differs in kind.
func sameMount(a, b int) (bool, error) {
	var sa, sb unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	errA := unix.Statx(a, "", flags, unix.STATX_MNT_ID, &sa)
	errB := unix.Statx(b, "", flags, unix.STATX_MNT_ID, &sb)
	if errA == nil && errB == nil && sa.Mask&sb.Mask&unix.STATX_MNT_ID != 0 {
		return sa.Mnt_id == sb.Mnt_id, nil
	}
	idA, errA := fdinfoMount(a)
	idB, errB := fdinfoMount(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return idA == idB, nil
}

// fdinfoMount reads the mount ID that /proc/self/fdinfo/FD has had since Linux 3.15;
// statx has had it only since 5.8.
func fdinfoMount(fd int) (int, error) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	id, err := mountIn(b)
	return int(min(id, math.MaxInt32)), err
}

// readFile reads the regular file name below parent, of at most limit bytes. A FIFO,
// socket or device is never opened: the name is held by O_PATH, looked at, and opened
// through its handle.
func (o opener) readFile(parent int, name string, limit int64) ([]byte, error) {
	text, _, err := o.readDated(parent, name, limit)
	return text, err
}

// readDated is readFile, and tells when the file was written last: asked after its content was
// read, so that this is no older.
func (o opener) readDated(parent int, name string, limit int64) ([]byte, time.Time, error) {
	fail := func(op string, err error) ([]byte, time.Time, error) {
		return nil, time.Time{}, pathError(op, name, err)
	}
	held, err := o.at(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return fail("open", err)
	}
	defer closeFD(held)
	st, err := statHandle(held)
	if err != nil {
		return fail("statx", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail("open", errors.New("it is "+typeName(st.Mode)+", no regular file"))
	}
	fd, err := reopen(held)
	if err != nil {
		return fail("open", err)
	}
	defer closeFD(fd)
	text, err := readAll(fd, int64(min(st.Size, 1<<40)), limit)
	if err != nil {
		return fail("read", err)
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return fail("fstat", err)
	}
	return text, time.Unix(after.Mtim.Unix()), nil
}

// reopen opens for reading what is held by O_PATH and was seen to be a regular file.
func reopen(held int) (int, error) {
	self := "/proc/self/fd/" + strconv.Itoa(held)
	fd, err := retry(func() (int, error) { return unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOATIME, 0) })
	if errors.Is(err, unix.EPERM) {
		fd, err = retry(func() (int, error) { return unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	}
	return fd, err
}

// noFileError is what is there, and is no regular file.
type noFileError struct{ mode uint16 }

func (e noFileError) Error() string { return "it is " + typeName(e.mode) + ", no regular file" }

// file opens a regular file for reading, in two system calls where readFile takes four. For
// directories that nobody but root writes to: a FIFO or device that takes the place of the
// file after its type was read is opened, without waiting and without a byte read.
func (o opener) file(parent int, name string, kind uint8) (int, unix.Statx_t, error) {
	var st unix.Statx_t
	if kind != unix.DT_REG {
		var err error
		if st, err = statName(parent, name); err != nil {
			return -1, st, pathError("statx", name, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return -1, st, noFileError{st.Mode}
		}
	}
	fd, err := o.regular(parent, name)
	if err != nil {
		return -1, st, pathError("open", name, err)
	}
	if st, err = statHandle(fd); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = noFileError{st.Mode}
	}
	if err != nil {
		closeFD(fd)
		return -1, st, err
	}
	return fd, st, nil
}

func (o opener) regular(parent int, name string) (int, error) {
	if o.fallback {
		held, err := o.at(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return -1, err
		}
		defer closeFD(held)
		return reopen(held)
	}
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := o.at(parent, name, flags|unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) {
		fd, err = o.at(parent, name, flags)
	}
	return fd, err
}

// readAll reads to the end, size being what the file's length was said to be.
func readAll(fd int, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, tooLong(limit)
	}
	room := size + 1
	if size == 0 {
		room = 512
	}
	return readInto(fd, make([]byte, 0, room), size, limit)
}

func tooLong(limit int64) error { return fmt.Errorf("longer than %d bytes", limit) }

// readInto does so into a buffer of some capacity, which it gives back grown. A read that
// had room for more and gave what the file's length was said to be has reached the end: it is
// not asked for once more, which for 300,000 small files is 300,000 calls. A size of 0 says
// nothing, since the files of procfs and cgroupfs have it.
func readInto(fd int, text []byte, size, limit int64) ([]byte, error) {
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
		if int64(len(text)) > limit {
			return nil, tooLong(limit)
		}
		if len(text) == cap(text) {
			text = slices.Grow(text, len(text))
			continue
		}
		if size > 0 && int64(len(text)) == size {
			return text, nil
		}
	}
}

// walk opens a directory one or more names down, each as dir does.
func (o opener) walk(parent int, names ...string) (int, error) {
	fd := parent
	for _, name := range names {
		next, err := o.dir(fd, name)
		if fd != parent {
			closeFD(fd)
		}
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

const statMask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_INO | unix.STATX_CTIME | unix.STATX_BTIME |
	unix.STATX_MTIME | unix.STATX_UID | unix.STATX_GID | unix.STATX_SIZE | unix.STATX_BLOCKS | unix.STATX_MNT_ID

// statHandle asks about what is held. DONT_SYNC: a file system whose server is gone is
// not asked.
func statHandle(fd int) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, statMask, &st)
	return st, err
}

// statName asks about a name, following no symlink. On a mount point it answers for what
// is mounted there, without asking its server.
func statName(parent int, name string) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(parent, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, statMask, &st)
	return st, err
}

func devOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

func typeName(mode uint16) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symlink"
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

func retry(f func() (int, error)) (int, error) {
	for range retries {
		v, err := f()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return v, err
		}
	}
	return -1, unix.EAGAIN
}

// closeFD closes a handle that was only read from: there is nothing to lose in an error.
func closeFD(fd int) { _ = unix.Close(fd) }

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: clean(name), Err: err}
}

// gone says that somebody was faster, which is no error.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// kernelOlderThan reads the release that uname gives; what cannot be read counts as old.
func kernelOlderThan(major, minor int) bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return true
	}
	var a, b int
	if n, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); n != 2 || err != nil {
		return true
	}
	return a < major || a == major && b < minor
}
