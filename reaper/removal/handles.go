package removal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// handles are the directories of one batch. Each has an error of its own: what lies in
// quarantine can be purged while the pods directory is not there.
type handles struct {
	pods, quar       int
	podsErr, quarErr error
	podsID, quarID   policy.DirID
	made             bool // the quarantine was made by this batch
	absent           bool // there is no quarantine, but there is the directory that it would be in
}

func (h *handles) close() {
	beneath.Close(h.pods)
	beneath.Close(h.quar)
}

// openHandles opens the pods directory and the quarantine anew: either may have been
// replaced since the last batch. create makes the quarantine where it is not there.
func (r *Remover) openHandles(create bool) *handles {
	h := &handles{pods: -1, quar: -1}
	h.pods, h.podsID, h.podsErr = r.openPods()
	if create && h.podsErr != nil {
		create = false
	}
	h.quarErr = r.openQuarantine(h, create)
	return h
}

func (r *Remover) openPods() (int, policy.DirID, error) {
	root, err := beneath.OpenDirPath(r.root)
	if err != nil {
		return -1, policy.DirID{}, err
	}
	defer beneath.Close(root)
	fd, err := r.open.Step(root, r.pods, beneath.ReadDir)
	if err != nil {
		if errors.Is(err, unix.EXDEV) {
			return -1, policy.DirID{}, fmt.Errorf("the pods directory is a mount point of its own, so nothing can be moved out of it: %w",
				beneath.PathError("open", r.podsPath(""), err))
		}
		return -1, policy.DirID{}, beneath.PathError("open", r.podsPath(""), err)
	}
	id, err := beneath.IDOf(fd)
	if err != nil {
		beneath.Close(fd)
		return -1, policy.DirID{}, beneath.PathError("fstat", r.podsPath(""), err)
	}
	return fd, id, nil
}

// openQuarantine opens the quarantine and refuses one in which entries would not be safe:
// a link, a mount point, another user's, one that others may enter, one in or above pods/.
func (r *Remover) openQuarantine(h *handles, create bool) error {
	path := r.quarPath("")
	parent, err := beneath.OpenDirPath(r.quarParent)
	if err != nil {
		return err
	}
	defer beneath.Close(parent)
	name := r.quar
	fd, err := r.open.Step(parent, name, beneath.ReadDir)
	if errors.Is(err, unix.ENOENT) && create {
		if r.guards.before != nil {
			r.guards.before("mkdirat", path)
		}
		if err := unix.Mkdirat(parent, r.quar, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return beneath.PathError("mkdirat", path, err)
		}
		h.made = true
		fd, err = r.open.Step(parent, name, beneath.ReadDir)
	}
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("the quarantine is a mount point; set --quarantine-dir to a directory on the mount of the pods directory: %w",
			beneath.PathError("open", path, err))
	}
	if err != nil {
		h.absent = errors.Is(err, unix.ENOENT)
		return beneath.PathError("open", path, err)
	}
	if err := r.checkQuarantine(h, fd, create); err != nil {
		beneath.Close(fd)
		return err
	}
	if h.made {
		// Its own name must be on disk before anything is moved into it.
		if err := syncDirOf(parent); err != nil {
			beneath.Close(fd)
			return beneath.PathError("fsync", r.quarParent, err)
		}
	}
	h.quar = fd
	return nil
}

// syncDirOf syncs a directory of which there is an O_PATH handle, which fsync does not take.
func syncDirOf(at int) error {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	return change.Fsync(fd)
}

func (r *Remover) checkQuarantine(h *handles, fd int, change bool) error {
	path := r.quarPath("")
	st, err := beneath.Stat(fd)
	if err != nil {
		return beneath.PathError("statx", path, err)
	}
	h.quarID = beneath.DirID(&st)
	if int(st.Uid) != unix.Geteuid() {
		return fmt.Errorf("the quarantine %s belongs to user %d: %w", path, st.Uid, unix.EPERM)
	}
	if st.Mode&0o077 != 0 {
		if err := r.tighten(fd, st.Mode, change); err != nil {
			return err
		}
	}
	if h.podsErr != nil {
		return nil //nolint:nilerr // what needs the pods directory asks for its error itself
	}
	if in, err := within(fd, h.podsID); err != nil || in {
		return fmt.Errorf("the quarantine %s lies in the pods directory, where the kubelet treats it as a pod (%w)", path, orInvalid(err))
	}
	if in, err := within(h.pods, h.quarID); err != nil || in {
		return fmt.Errorf("the pods directory lies in the quarantine %s (%w)", path, orInvalid(err))
	}
	return nil
}

func orInvalid(err error) error {
	if err == nil {
		return unix.EINVAL
	}
	return err
}

// tighten takes the others' rights from a quarantine that is still empty. One that holds
// something may be any directory that was named by mistake: its mode is its owner's.
func (r *Remover) tighten(fd int, mode uint16, change bool) error {
	d := dents{buf: make([]byte, 4096)}
	more, err := d.read(fd)
	if err != nil {
		return beneath.PathError("getdents64", r.quarPath(""), err)
	}
	if more && len(d.list) > 0 {
		return fmt.Errorf("the quarantine %s has mode %#o and is not empty; chmod 0700 it if it is the right one: %w",
			r.quarPath(""), mode&0o7777, unix.EPERM)
	}
	if err := rewind(fd); err != nil {
		return beneath.PathError("lseek", r.quarPath(""), err)
	}
	if !change {
		return nil // only looked at
	}
	if err := unix.Fchmod(fd, 0o700); err != nil {
		return beneath.PathError("fchmod", r.quarPath(""), err)
	}
	r.log.Info("removed other users' rights from the quarantine")
	return nil
}

// within says whether the directory fd is dir or hangs below it, by going up.
func within(fd int, dir policy.DirID) (bool, error) {
	at, err := unix.Openat(fd, ".", beneath.OPathDir, 0)
	if err != nil {
		return true, err
	}
	defer func() { beneath.Close(at) }()
	last := policy.DirID{}
	for range 256 {
		id, err := beneath.IDOf(at)
		if err != nil {
			return true, err
		}
		if id == dir {
			return true, nil
		}
		if id == last {
			return false, nil // the root is its own parent
		}
		last = id
		up, err := unix.Openat(at, "..", beneath.OPathDir, 0)
		if err != nil {
			return true, err
		}
		beneath.Close(at)
		at = up
	}
	return true, unix.ELOOP
}
