package fdpath

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const (
	// With statFlags a stat waits for no network or FUSE server and triggers no automount: it was seen to return on a dead
	// mount.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC

	statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
)

// Stat returns the status of the file of a handle.
func Stat(fd int) (unix.Statx_t, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

func statx(dirfd int, name string, flags int) (st unix.Statx_t, err error) {
	err = Uninterrupted(func() error { return unix.Statx(dirfd, name, statFlags|flags, statMask, &st) })
	return st, err
}

// DevOf returns the device number of stat(2).
func DevOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// IDOf returns the identity of a file.
func IDOf(st *unix.Statx_t) judge.FileID {
	id := judge.FileID{Dev: DevOf(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Btime = Nanos(st.Btime)
	}
	return id
}

// Nanos returns a time as nanoseconds since 1970.
func Nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// Bytes returns the allocated bytes of a file.
func Bytes(st *unix.Statx_t) int64 { return int64(min(st.Blocks, 1<<53)) * 512 }

// Size returns the length of a file.
func Size(st *unix.Statx_t) int64 { return int64(min(st.Size, 1<<62)) }

// IsDir reports whether the file is a directory.
func IsDir(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// Type converts a file's type for package content.
func Type(st *unix.Statx_t) content.Type {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return content.Regular
	case unix.S_IFLNK:
		return content.Symlink
	case unix.S_IFDIR:
		return content.Directory
	}
	return content.Other
}

// TypeName returns the name of a file's type.
func TypeName(st *unix.Statx_t) string {
	switch st.Mode & unix.S_IFMT {
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

// sameMount reports whether both descriptors are on one mount. statx and fdinfo may use different IDs, so one of them must
// answer for both descriptors.
func sameMount(a, b int) (bool, error) { return sameBy(a, b, mountByStatx, mountByFdinfo) }

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

// mountByFdinfo reads the mnt_id line of proc_pid_fdinfo(5), Linux 3.15.
func mountByFdinfo(fd int) (uint64, error) {
	f, err := Retry(func() (int, error) {
		return unix.Open(fmt.Sprintf("/proc/thread-self/fdinfo/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return 0, err
	}
	defer Close(f)
	text, err := readAll(f, 1<<20)
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
