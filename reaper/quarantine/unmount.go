package quarantine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

var (
	errGone    = errors.New("nothing is mounted there any more")
	errOther   = errors.New("the mount there is not the one that was shown")
	errCovered = errors.New("another mount covers it")
	errHangs   = errors.New("the kernel has not ended the unmount: the server of the file system may be gone")
)

// unmountTime limits the wait for one unmount: it writes back what is not written yet.
const unmountTime = time.Minute

// Unmount detaches one mount that Mounts has returned: in the namespace of this process, only if it is the topmost one at its
// place and nothing uses it, never lazily. The caller asks the operator, and judges the pod again before each mount. It
// returns in bounded time.
func (q *Quarantine) Unmount(ctx context.Context, permit judge.Permit, uid parsers.PodUID, id judge.FileID, m Mount) (judge.Result, error) {
	switch {
	case !permit.MayRemove():
		return judge.Refused, errNoPermit
	case ctx.Err() != nil:
		return judge.Refused, ctx.Err()
	case m.Keeps != "":
		return judge.Refused, errors.New(m.Keeps)
	}
	done := make(chan error, 1)
	bounded.OnOwnThread(func() { done <- q.detach(uid, id, m) })
	timer := time.NewTimer(unmountTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return judge.Failed, errHangs
	case err := <-done:
		switch {
		case err == nil:
			return judge.Done, nil
		case errors.Is(err, errGone), fdpath.Gone(err):
			return judge.Gone, err
		case errors.Is(err, unix.EBUSY):
			return judge.Refused, fmt.Errorf("%s is in use; `fuser -vm` shows by what: %w", m, err)
		}
		return judge.Refused, fmt.Errorf("cannot unmount %s: %w", m, err)
	}
}

// detach unmounts m on a thread with a working directory of its own.
func (q *Quarantine) detach(uid parsers.PodUID, id judge.FileID, m Mount) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("cannot unshare the working directory: %w", err)
	}
	dir, name, err := q.findMount(uid, id, m)
	if err != nil {
		return err
	}
	defer dir.Close()
	if q.guards.topmost {
		if err := isTopmost(dir, name, m); err != nil {
			return err
		}
	}
	return q.disk.unmount(dir, name)
}

// findMount opens the directory of the mount point, one name at a time from the mount that the pod's directory lies on. It
// passes through the pod's directory, and crosses only mounts of the pod that m is mounted on.
func (q *Quarantine) findMount(uid parsers.PodUID, id judge.FileID, m Mount) (*fdpath.Dir, string, error) {
	all, err := q.Mounts(uid, id)
	if err != nil {
		return nil, "", err
	}
	if !slices.ContainsFunc(all, func(o Mount) bool { return o.Info == m.Info }) {
		return nil, "", errGone
	}
	lowest := m.Info
	var under []mountinfo.Info // the pod's mounts that m lies on, nearest first
	for _, o := range all {
		if o.ID == lowest.Parent {
			lowest = o.Info
			under = append(under, lowest)
		}
	}
	roots, err := mountinfo.GetMounts(func(o *mountinfo.Info) (skip, stop bool) { return o.ID != lowest.Parent, false })
	if err != nil || len(roots) != 1 {
		return nil, "", errors.Join(err, errGone)
	}
	rel, ok := below(roots[0].Mountpoint, m.Mountpoint)
	if !ok || rel == "" {
		return nil, "", errGone
	}
	names := strings.Split(rel, "/")
	dir, err := q.descend(roots[0], names[:len(names)-1], under, id)
	if err != nil {
		return nil, "", err
	}
	want := roots[0].ID
	for _, u := range slices.Backward(under) {
		if u.Mountpoint != m.Mountpoint { // else it is covered at the same place by m
			want = u.ID
		}
	}
	if on, err := dir.MountID(); err != nil || on != uint64(want) {
		dir.Close()
		return nil, "", errors.Join(err, errCovered)
	}
	return dir, names[len(names)-1], nil
}

// descend opens the names below the mount root, and crosses the mounts in under.
func (q *Quarantine) descend(root *mountinfo.Info, names []string, under []mountinfo.Info, id judge.FileID) (*fdpath.Dir, error) {
	at, err := q.open.Open(root.Mountpoint)
	if err != nil {
		return nil, err
	}
	if on, err := at.MountID(); err != nil || on != uint64(root.ID) {
		at.Close()
		return nil, errors.Join(err, errCovered)
	}
	passed, where := false, root.Mountpoint
	for _, name := range names {
		where = path.Join(where, name)
		next, err := at.Step(name)
		if errors.Is(err, unix.EXDEV) {
			next, err = cross(at, name, where, under)
		}
		at.Close()
		if err != nil {
			return nil, fdpath.OpenError(where, err)
		}
		at = next
		got, err := at.ID()
		passed = passed || err == nil && got == id
	}
	if !passed {
		at.Close()
		return nil, errReplaced
	}
	return at, nil
}

// cross steps onto a mount that is among under. A file system with a server is not entered: a FUSE server that does not
// answer keeps the thread, and so the process, beyond SIGKILL.
func cross(at *fdpath.Dir, name, where string, under []mountinfo.Info) (*fdpath.Dir, error) {
	for _, m := range under {
		if m.Mountpoint == where && !slices.Contains(localTypes, m.FSType) {
			return nil, fmt.Errorf("its file system is of type %s, whose server may not answer: unmount what is in it by umount", bounded.Name(m.FSType))
		}
	}
	known := func(id uint64) bool {
		return slices.ContainsFunc(under, func(m mountinfo.Info) bool { return uint64(m.ID) == id && m.Mountpoint == where })
	}
	if st, err := at.StatName(name); err != nil || st.Mask&unix.STATX_MNT_ID != 0 && !known(st.Mnt_id) {
		return nil, errors.Join(err, errCovered) // also before the step: an unknown mount may hang
	}
	next, err := at.Cross(name)
	if err != nil {
		return nil, err
	}
	if on, err := next.MountID(); err != nil || !known(on) {
		next.Close()
		return nil, errors.Join(err, errCovered)
	}
	return next, nil
}

// localTypes are file systems without a server: the kernel itself answers.
var localTypes = []string{
	"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "iso9660", "squashfs", "erofs", "tmpfs", "ramfs", "overlay", "hugetlbfs",
}

// isTopmost returns an error unless m is the topmost mount at the name. It sends no request to the mounted file system.
func isTopmost(dir *fdpath.Dir, name string, m Mount) error {
	on := func(o *mountinfo.Info) bool { return o.Parent == m.ID && o.Mountpoint == m.Mountpoint }
	mounts, err := mountinfo.GetMounts(func(o *mountinfo.Info) (skip, stop bool) { return o.ID != m.ID && !on(o), false })
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(mounts, on):
		return errCovered
	case len(mounts) == 0:
		return errGone
	case *mounts[0] != m.Info:
		return errOther
	}
	st, err := dir.StatName(name)
	switch {
	case err != nil:
		return err
	case st.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id != uint64(m.ID):
		return errOther
	}
	return nil
}
