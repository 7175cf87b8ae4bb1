package removal

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// identify opens the directory name in parent without asking its file system to list it,
// and says which directory it is. EXDEV: a mount point. ENOTDIR, ELOOP: no directory.
func (o *opener) identify(parent int, name cname) (policy.DirID, error) {
	fd, err := o.dir(parent, name, holdDir)
	if err != nil {
		return policy.DirID{}, err
	}
	defer closeFD(fd)
	var st unix.Statx_t
	if err := statx(fd, cname("\x00").ptr(), unix.AT_EMPTY_PATH|statFlags,
		unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return policy.DirID{}, err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		// The step would have stopped there; here it costs nothing to ask again.
		return policy.DirID{}, unix.EXDEV
	}
	return idOf(&st), nil
}

func idOf(st *unix.Statx_t) policy.DirID {
	id := policy.DirID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Btime = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id
}

// same says whether got is the directory that was judged in a look of this boot.
func same(want, got policy.DirID) bool { return want == got && want != policy.DirID{} }

// sameParked says whether got is the directory that was parked, which may have been under
// an earlier boot: device numbers are given anew at each (dm, nvme, NFS), so the inode and
// its birth must do. The zero value means any.
func sameParked(want, got policy.DirID) bool {
	return want == policy.DirID{} || (want.Ino == got.Ino && want.Btime == got.Btime)
}

// exists says whether anything at all has this name. It asks no file system that may be
// mounted there.
func exists(parent int, name cname) (bool, error) {
	var st unix.Statx_t
	err := statx(parent, name.ptr(), statFlags, unix.STATX_TYPE, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}
