package beneath

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

const (
	// With statFlags a stat waits for no network or FUSE server and triggers no automount: it was seen to return on a dead
	// mount.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC

	statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
)

// Stat returns the status of the file of a handle.
func Stat(fd int) (unix.Statx_t, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

// StatName returns the status of a name and follows no symbolic link. That of a mount point is of what is mounted there,
// without a request to its server. The name may be "..".
func StatName(parent int, name string) (unix.Statx_t, error) {
	if name == "" {
		return unix.Statx_t{}, unix.ENOENT
	}
	return statx(parent, name, 0)
}

func statx(dirfd int, name string, flags int) (st unix.Statx_t, err error) {
	err = Uninterrupted(func() error { return unix.Statx(dirfd, name, statFlags|flags, statMask, &st) })
	return st, err
}

// DevOf returns the device number of stat(2).
func DevOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// DirID returns the identity of a directory.
func DirID(st *unix.Statx_t) policy.DirID {
	id := policy.DirID{Dev: DevOf(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Btime = Nanos(st.Btime)
	}
	return id
}

// IDOf returns the identity of the directory of a handle.
func IDOf(fd int) (policy.DirID, error) {
	st, err := Stat(fd)
	return DirID(&st), err
}

// Nanos returns a time as nanoseconds since 1970.
func Nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// TypeName returns the name of a file's type.
func TypeName(mode uint16) string {
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

// EntryType converts a file's type for package contents.
func EntryType(mode uint16) contents.EntryType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return contents.TypeRegular
	case unix.S_IFLNK:
		return contents.TypeSymlink
	case unix.S_IFDIR:
		return contents.TypeDirectory
	}
	return contents.TypeOther
}

// sameMount reports whether both descriptors are on one mount. statx and fdinfo may use different IDs, so one of them must
// answer for both descriptors.
func sameMount(a, b int) (bool, error) { return sameBy(a, b, mountByStatx, MountID) }

// sameBy compares the IDs of a and b, by the first of the ways that works. The error is not wrapped: without /proc it is
// ENOENT, which callers would read as a missing name.
func sameBy(a, b int, ways ...func(fd int) (uint64, error)) (bool, error) {
	var first error
	for _, id := range ways {
		x, errA := id(a)
		y, errB := id(b)
		if errA == nil && errB == nil {
			return x == y, nil
		}
		if first = cmp.Or(first, errA, errB); errA == nil {
			break // it answers for one of them only, and another way would, too
		}
	}
	return false, fmt.Errorf("it is unknown whether it is a mount point: %s", first.Error())
}

var errNoMountID = errors.New("no mount ID")

// mountByStatx needs STATX_MNT_ID of Linux 5.8.
func mountByStatx(fd int) (uint64, error) {
	st, err := Stat(fd)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = errNoMountID
	}
	return st.Mnt_id, err
}

// MountID returns the mountinfo ID of the mount that fd is on: the mnt_id line of proc_pid_fdinfo(5), Linux 3.15.
func MountID(fd int) (uint64, error) {
	f, err := Retry(func() (int, error) {
		return unix.Open(fmt.Sprintf("/proc/thread-self/fdinfo/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return 0, err
	}
	defer Close(f)
	text, err := ReadAll(f, 0, 1<<20)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
		}
	}
	return 0, errNoMountID
}

// MountAt returns the IDs of the topmost mount at the name: that of mountinfo, which the kernel uses again, and the unique one
// (STATX_MNT_ID_UNIQUE, Linux 6.8), 0 on an older kernel. root reports whether the name is a mount point. It sends no request
// to the mounted file system.
func (d *Dir) MountAt(name string) (id, unique uint64, root bool, err error) {
	st, err := d.StatName(name)
	if err == nil && (st.Mask&unix.STATX_MNT_ID == 0 || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0) {
		err = errNoMountID
	}
	if err != nil {
		return 0, 0, false, err
	}
	var again unix.Statx_t
	err = Uninterrupted(func() error { return unix.Statx(d.FD(), name, statFlags, unix.STATX_MNT_ID_UNIQUE, &again) })
	if err == nil && again.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		unique = again.Mnt_id
	}
	return st.Mnt_id, unique, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}

// Answers sends a request to the server of the file system mounted at name, and waits until it returns.
func (d *Dir) Answers(name string) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_FORCE_SYNC
	var st unix.Statx_t
	return Uninterrupted(func() error { return unix.Statx(d.FD(), name, flags, unix.STATX_BASIC_STATS, &st) })
}

// State identifies a file in one state: it changes when the file is replaced or written.
type State struct {
	Dev, Ino uint64
	Size     int64
	Ctime    int64 // nanoseconds since the epoch
}

// StateOf returns the state of a file, or zero if its status could not be read.
func StateOf(st *unix.Statx_t) State {
	if st.Mode == 0 {
		return State{}
	}
	return State{Dev: DevOf(st), Ino: st.Ino, Size: int64(min(st.Size, 1<<62)), Ctime: Nanos(st.Ctime)}
}
