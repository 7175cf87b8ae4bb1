package removal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// handles are the open directories of one batch. Each has its own error: quarantine can be purged while the pods
// directory is missing.
type handles struct {
	pods, quar       *beneath.Dir
	podsErr, quarErr error
	podsID, quarID   policy.DirID
	made             bool // the quarantine was made by this batch
	absent           bool // there is no quarantine, but its parent exists
}

func (h *handles) close() {
	h.pods.Close()
	h.quar.Close()
}

// openHandles opens the pods directory and the quarantine. create makes a missing quarantine, if there is a pods
// directory.
func (r *Remover) openHandles(create bool) *handles {
	h := &handles{}
	h.pods, h.podsID, h.podsErr = r.openPods()
	h.quarErr = r.openQuarantine(h, create && h.podsErr == nil)
	return h
}

// movable returns why nothing can be moved between the pods directory and the quarantine.
func (h *handles) movable() error {
	switch {
	case h.podsErr != nil:
		return h.podsErr
	case h.quarErr != nil:
		return explain(h.quarErr)
	case !h.pods.SameMount(h.quar):
		return errTwoMounts
	}
	return nil
}

// Movable returns why nothing can be moved to the quarantine, as far as that shows without a try. It changes nothing.
func (r *Remover) Movable() error {
	h := r.openHandles(false)
	defer h.close()
	if h.absent && h.podsErr == nil { // it is made in its parent directory
		if h.quar, h.quarErr = r.open.Open(r.quarParent); h.quarErr != nil {
			return h.quarErr
		}
	}
	return h.movable()
}

func (r *Remover) openPods() (*beneath.Dir, policy.DirID, error) {
	root, err := r.open.Open(r.root)
	if err != nil {
		return nil, policy.DirID{}, err
	}
	defer root.Close()
	dir, err := root.Step(r.pods)
	if err != nil {
		if errors.Is(err, unix.EXDEV) {
			return nil, policy.DirID{}, fmt.Errorf("the pods directory is a mount point of its own, so nothing can be moved out of it: %w",
				beneath.PathError("open", r.podsPath(""), err))
		}
		return nil, policy.DirID{}, beneath.PathError("open", r.podsPath(""), err)
	}
	id, err := dir.ID()
	if err != nil {
		dir.Close()
		return nil, policy.DirID{}, beneath.PathError("fstat", r.podsPath(""), err)
	}
	return dir, id, nil
}

// openQuarantine opens the quarantine. It refuses a link, a mount point, a directory of another user or that other
// users may enter, and one in or above the pods directory.
func (r *Remover) openQuarantine(h *handles, create bool) error {
	path := r.quarPath("")
	parent, err := r.open.Open(r.quarParent)
	if err != nil {
		return err
	}
	defer parent.Close()
	name := r.quar
	dir, err := parent.Step(name)
	if errors.Is(err, unix.ENOENT) && create {
		if r.guards.before != nil {
			r.guards.before("mkdirat", path)
		}
		if err := unix.Mkdirat(parent.FD(), r.quar, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return beneath.PathError("mkdirat", path, err)
		}
		h.made = true
		dir, err = parent.Step(name)
	}
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("the quarantine is a mount point; set --quarantine-dir to a directory on the mount of the pods directory: %w",
			beneath.PathError("open", path, err))
	}
	if err != nil {
		h.absent = errors.Is(err, unix.ENOENT)
		return beneath.PathError("open", path, err)
	}
	if err := r.checkQuarantine(h, dir, create); err != nil {
		dir.Close()
		return err
	}
	if h.made {
		// Its own name must be on disk before anything is moved into it.
		if err := syncDirOf(parent); err != nil {
			dir.Close()
			return beneath.PathError("fsync", r.quarParent, err)
		}
	}
	h.quar = dir
	return nil
}

// syncDirOf syncs a directory through an O_PATH handle, which fsync rejects.
func syncDirOf(at *beneath.Dir) error {
	dir, err := at.Step(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return change.Fsync(dir.FD())
}

func (r *Remover) checkQuarantine(h *handles, dir *beneath.Dir, change bool) error {
	path := r.quarPath("")
	st, err := dir.Stat()
	if err != nil {
		return beneath.PathError("statx", path, err)
	}
	h.quarID = beneath.DirID(&st)
	if int(st.Uid) != unix.Geteuid() {
		return fmt.Errorf("the quarantine %s belongs to user %d; chown it to user %d if it is the right one", path, st.Uid, unix.Geteuid())
	}
	if st.Mode&0o077 != 0 {
		if err := r.tighten(dir, st.Mode, change); err != nil {
			return err
		}
	}
	if h.podsErr != nil {
		return nil //nolint:nilerr // movable returns it
	}
	if in, err := dir.Within(h.podsID); err != nil {
		return fmt.Errorf("it is not known whether the quarantine %s is in the pods directory: %w", path, err)
	} else if in {
		return fmt.Errorf("the quarantine %s is in the pods directory, where the kubelet treats it as a pod", path)
	}
	if in, err := h.pods.Within(h.quarID); err != nil {
		return fmt.Errorf("it is not known whether the pods directory is in the quarantine %s: %w", path, err)
	} else if in {
		return fmt.Errorf("the pods directory is in the quarantine %s", path)
	}
	return nil
}

// tighten removes other users' rights from an empty quarantine. One with content may have been configured by
// mistake, so its mode is not changed.
func (r *Remover) tighten(dir *beneath.Dir, mode uint16, change bool) error {
	names, err := beneath.List(dir.FD(), 1)
	if len(names) > 0 {
		return fmt.Errorf("the quarantine %s has mode %#o and is not empty; chmod 0700 it if it is the right one", r.quarPath(""), mode&0o7777)
	}
	if err != nil {
		return beneath.PathError("getdents64", r.quarPath(""), err)
	}
	if !change {
		return nil
	}
	if err := unix.Fchmod(dir.FD(), 0o700); err != nil {
		return beneath.PathError("fchmod", r.quarPath(""), err)
	}
	r.log.Info("removed other users' rights from the quarantine")
	return nil
}
