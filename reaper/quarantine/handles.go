package quarantine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
)

// handles are the two open directories. Each has its own error: the quarantine can be purged while the pods directory is
// missing. Their Name is their path.
type handles struct {
	pods, quar       *fdpath.Level
	podsErr, quarErr error
	absent           bool // there is no quarantine, but its parent exists
}

func (h *handles) close() {
	for _, l := range []*fdpath.Level{h.pods, h.quar} {
		if l != nil {
			l.Close()
		}
	}
}

// openHandles opens the pods directory and the quarantine. create makes a missing quarantine if there is a pods directory.
func (q *Quarantine) openHandles(create bool) *handles {
	h := &handles{}
	h.pods, h.podsErr = q.openPods()
	h.quarErr = q.openQuarantine(h, create && h.podsErr == nil)
	return h
}

var errTwoMounts = errors.New("quarantine and pods directory are on two mounts; set --quarantine-dir to a directory on the mount of the pods directory")

// movable returns why nothing can be moved between the pods directory and the quarantine.
func (h *handles) movable() error {
	switch {
	case h.podsErr != nil:
		return h.podsErr
	case h.quarErr != nil:
		return h.quarErr
	case !h.pods.SameMount(h.quar.Dir):
		return errTwoMounts
	}
	return nil
}

// level returns a directory with its identity.
func level(dir *fdpath.Dir, path string) (*fdpath.Level, error) {
	id, err := dir.ID()
	if err != nil {
		dir.Close()
		return nil, fdpath.PathError("statx", path, err)
	}
	return &fdpath.Level{Dir: dir, Name: path, ID: id}, nil
}

func (q *Quarantine) openPods() (*fdpath.Level, error) {
	root, err := q.open.Open(q.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Step(q.pods)
	if fdpath.Is(err, unix.ENOTDIR, unix.ELOOP) {
		var target [unix.PathMax]byte
		if n, e := unix.Readlinkat(root.FD(), q.pods, target[:]); e == nil {
			return nil, fmt.Errorf("the pods directory %s is a symbolic link to %s; set --root-dir to the directory that really holds it",
				q.podsPath(""), bounded.Name(string(target[:n])))
		}
	}
	if err != nil {
		return nil, fdpath.OpenError(q.podsPath(""), err)
	}
	return level(dir, q.podsPath(""))
}

// openQuarantine opens the quarantine. It refuses a link, a mount point, a directory of another user or that other users may
// enter, and one in or above the pods directory.
func (q *Quarantine) openQuarantine(h *handles, create bool) error {
	path := q.path("")
	parent, err := q.open.Open(q.parent)
	if err != nil {
		return err
	}
	defer parent.Close()
	dir, err := parent.Step(q.name)
	made := errors.Is(err, unix.ENOENT) && create
	if made {
		if err := q.disk.mkdir(parent, q.name); err != nil && !errors.Is(err, unix.EEXIST) {
			return explain(fdpath.PathError("mkdirat", path, err))
		}
		dir, err = parent.Step(q.name)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%w; set --quarantine-dir to a directory on the mount of the pods directory", fdpath.OpenError(path, err))
	case err != nil:
		h.absent = errors.Is(err, unix.ENOENT)
		return fdpath.OpenError(path, err)
	}
	quar, err := level(dir, path)
	if err != nil {
		return err
	}
	if err = q.checkQuarantine(h, quar, create); err == nil && made {
		err = q.syncMade(parent)
	}
	if err != nil {
		quar.Close()
		return err
	}
	h.quar = quar
	return nil
}

// syncMade syncs the parent of the quarantine: the quarantine's own name must be on disk before anything is moved into it.
// The parent is an O_PATH handle, which fsync rejects.
func (q *Quarantine) syncMade(parent *fdpath.Dir) error {
	dir, err := parent.Step(".")
	if err == nil {
		defer dir.Close()
		err = q.disk.sync(dir)
	}
	if err != nil {
		return fdpath.PathError("fsync", q.parent, err)
	}
	return nil
}

func (q *Quarantine) checkQuarantine(h *handles, quar *fdpath.Level, change bool) error {
	st, err := quar.Stat()
	if err != nil {
		return fdpath.PathError("statx", quar.Name, err)
	}
	if int(st.Uid) != unix.Geteuid() {
		return fmt.Errorf("the quarantine %s belongs to user %d; chown it to user %d if it is the right one", quar.Name, st.Uid, unix.Geteuid())
	}
	if st.Mode&0o077 != 0 {
		if err := q.tighten(quar, st.Mode, change); err != nil {
			return err
		}
	}
	if h.podsErr != nil {
		return nil //nolint:nilerr // movable returns it
	}
	if in, err := quar.Within(h.pods.ID); err != nil {
		return fmt.Errorf("it is not known whether the quarantine %s is in the pods directory: %w", quar.Name, err)
	} else if in {
		return fmt.Errorf("the quarantine %s is in the pods directory, where the kubelet treats it as a pod", quar.Name)
	}
	if in, err := h.pods.Within(quar.ID); err != nil {
		return fmt.Errorf("it is not known whether the pods directory is in the quarantine %s: %w", quar.Name, err)
	} else if in {
		return fmt.Errorf("the pods directory is in the quarantine %s", quar.Name)
	}
	return nil
}

// tighten removes other users' rights from an empty quarantine, which an operator has made. One with content may have been
// configured by mistake.
func (q *Quarantine) tighten(quar *fdpath.Level, mode uint16, change bool) error {
	names, err := quar.List(1)
	if len(names) > 0 {
		return fmt.Errorf("the quarantine %s has mode %#o and is not empty; chmod 0700 it if it is the right one", quar.Name, mode&0o7777)
	}
	if err == nil && change {
		err = q.disk.chmod(quar.Dir, 0o700)
	}
	if err != nil {
		return fdpath.PathError("fchmod", quar.Name, err)
	}
	return nil
}

// explain adds what an operator can do about err.
func explain(err error) error {
	var hint string
	switch {
	case errors.Is(err, unix.EXDEV):
		hint = "set --quarantine-dir to a directory on the mount of the pods directory"
	case errors.Is(err, unix.EBUSY):
		hint = "something is mounted on it; unmount it first"
	case fdpath.Is(err, unix.EPERM, unix.EACCES):
		hint = "it may be immutable (lsattr -d), or this process lacks CAP_DAC_OVERRIDE and CAP_FOWNER"
	case errors.Is(err, unix.EROFS):
		hint = "the file system is read-only"
	case fdpath.Is(err, unix.ENOSPC, unix.EDQUOT):
		hint = "the file system is full"
	case errors.Is(err, unix.EEXIST):
		hint = "the name is in use"
	case fdpath.Is(err, unix.EINVAL, unix.ENOSYS):
		hint = "this file system cannot rename without replacing"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
