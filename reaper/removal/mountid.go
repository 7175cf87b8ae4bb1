package removal

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

var errNoMountID = errors.New("no mount ID")

// mountIDs are the ways to learn which mount a descriptor is on, the best first. IDs of
// different ways are not compared with each other.
var mountIDs = [...]func(fd int) (uint64, error){byStatx, byHandle, byFdinfo}

// sameMount says whether both descriptors are on one mount. Every error means no.
func sameMount(a, b int) bool {
	for _, id := range mountIDs {
		x, errA := id(a)
		if errA != nil {
			continue
		}
		y, errB := id(b)
		return errB == nil && x == y
	}
	return false
}

// byStatx: STATX_MNT_ID, Linux 5.8. DONT_SYNC: a dead server is not asked.
func byStatx(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := statx(fd, cname("\x00").ptr(), unix.AT_EMPTY_PATH|statFlags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, errNoMountID
	}
	return st.Mnt_id, nil
}

// byHandle: name_to_handle_at, Linux 2.6.39, on file systems that can be exported.
func byHandle(fd int) (uint64, error) {
	_, id, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return 0, err
	}
	return uint64(id), nil //nolint:gosec // an ID is compared, never counted with
}

// byFdinfo: the mnt_id line of proc_pid_fdinfo(5), Linux 3.15. The thread's own file,
// since the thread may have left the process's descriptor table behind.
func byFdinfo(fd int) (uint64, error) {
	path := fmt.Sprintf("/proc/thread-self/fdinfo/%d", fd)
	f, err := openat(unix.AT_FDCWD, cstring(path), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer closeFD(f)
	buf := make([]byte, 4096)
	n, err := unix.Read(f, buf)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if rest, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
		}
	}
	return 0, errNoMountID
}
