package remove

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

var (
	errChanged  = errors.New("it was changed or replaced since it was archived")
	errIsMount  = errors.New("something is mounted on it")
	errInTheWay = errors.New("something else came to lie there while it was moved back")
)

// verify returns an error unless name is the regular file want with the content data.
func (d *dirHandle) verify(name string, want cni.FileID, data []byte) (unix.Statx_t, error) {
	st, err := beneath.StatName(d.dir.FD(), name)
	switch {
	case err != nil:
		return st, err
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return st, errIsMount
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return st, fmt.Errorf("it is %s by now", typeName(st.Mode))
	case !sameFile(want, &st):
		return st, errChanged
	}
	// Check the opened file too: it may have replaced the one that was checked.
	fd, st, err := d.dir.RootFile(name, unix.DT_REG)
	if err != nil {
		return st, err
	}
	defer beneath.Close(fd)
	if !sameFile(want, &st) {
		return st, errChanged
	}
	if want.Size != int64(len(data)) {
		return st, errChanged
	}
	if d.b.buf == nil {
		d.b.buf = make([]byte, 0, 64<<10)
	}
	got, err := beneath.ReadInto(fd, d.b.buf[:0], want.Size, want.Size)
	if errors.Is(err, beneath.ErrTooLong) || err == nil && !bytes.Equal(got, data) {
		return st, errChanged
	}
	d.b.buf = got
	return st, err
}

// sameFile compares with the archived file; a change time of 0 matches any.
func sameFile(want cni.FileID, st *unix.Statx_t) bool {
	got := cni.FileID(beneath.StateOf(st))
	if want.Ctime == 0 {
		got.Ctime = 0
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG && want == got && want.Ino != 0
}

func typeName(mode uint16) string {
	if mode&unix.S_IFMT == unix.S_IFLNK {
		return "a symbolic link" // existing records have this text
	}
	return beneath.TypeName(mode)
}

// failure returns the result of a file that was not changed because of an error.
func (d *dirHandle) failure(op, name string, err error) (policy.Result, error) {
	return resultOf(err), explain(beneath.PathError(op, d.filePath(name), err))
}

// resultOf returns Refused for a file that has changed, and Failed for an error of the file system.
func resultOf(err error) policy.Result {
	if _, ok := errors.AsType[unix.Errno](err); !ok || change.Is(err, unix.ELOOP, unix.ENOTDIR, unix.EXDEV, unix.ENXIO, unix.EEXIST) {
		return policy.Refused
	}
	return policy.Failed
}

// explain adds what an operator can do about the error.
func explain(err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("%w (it is a mount of its own)", err)
	}
	return change.Explain(err)
}

func (d *dirHandle) unlink(name string) (policy.Result, error) {
	d.before("unlinkat", name)
	err := change.Unlinkat(d.dir, name, 0)
	if errors.Is(err, unix.ENOENT) {
		return policy.Gone, nil
	}
	if err != nil {
		return d.failure("unlinkat", name, err)
	}
	d.changed = true
	return policy.Done, nil
}

// remove removes a file. For an address the caller holds the lock. If it is killed after a step of a cache file, a
// second run does this:
//
//  1. moved aside: removes the archived file under its name aside;
//  2. removed: finds neither name, so the file is Gone.
func (d *dirHandle) remove(c *cni.File) (policy.Result, error) {
	name := c.Name
	st, err := d.verify(name, c.ID, c.Data)
	switch {
	case errors.Is(err, unix.ENOENT) && c.Kind == cni.Address:
		return policy.Gone, nil
	case errors.Is(err, unix.ENOENT):
		return d.finish(c, name)
	case err != nil:
		return d.failure("open", name, err)
	case c.Kind == cni.Address || !d.b.r.guards.aside:
		return d.unlink(name)
	}
	aside := asideName(c.Name)
	err = d.rename(name, aside)
	if errors.Is(err, unix.ENOENT) {
		return policy.Gone, nil
	}
	if errors.Is(err, unix.EEXIST) {
		return policy.Refused, fmt.Errorf("an interrupted run has left %q; inspect it and remove it", d.filePath(aside))
	}
	if err != nil {
		return d.failure("renameat2", name, err)
	}
	d.changed = true
	moved, err := beneath.StatName(d.dir.FD(), aside)
	if err != nil {
		return d.failure("statx", aside, err)
	}
	if !untouched(&st, &moved) {
		return d.putBack(name, aside)
	}
	return d.unlink(aside)
}

// untouched reports whether the file was not written since it was read. It ignores the change time, which the rename
// has changed. Policy waits for an age, so the modification time is long past, and any write changes it, however coarse
// the file system's clock is.
func untouched(read, now *unix.Statx_t) bool {
	want := cni.FileID(beneath.StateOf(read))
	want.Ctime = 0
	return sameFile(want, now) && read.Mtime == now.Mtime
}

// putBack moves a file that is not the archived one back to its name.
func (d *dirHandle) putBack(name, aside string) (policy.Result, error) {
	err := d.rename(aside, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return policy.Gone, nil
	case errors.Is(err, unix.EEXIST):
		return policy.Failed, fmt.Errorf("%w; it is %q", errInTheWay, d.filePath(aside))
	case err != nil:
		return d.failure("renameat2", aside, err)
	}
	return d.failure("renameat2", name, errChanged)
}

// finish finishes an interrupted removal of a name that does not exist.
func (d *dirHandle) finish(c *cni.File, name string) (policy.Result, error) {
	aside := asideName(c.Name)
	want := c.ID
	want.Ctime = 0
	_, err := d.verify(aside, want, c.Data)
	switch {
	case err == nil:
		d.changed = true // the run before may not have synced
		return d.unlink(aside)
	case errors.Is(err, unix.ENOENT):
		d.changed = true
		return policy.Gone, nil
	case errors.Is(err, errChanged):
		return d.putBack(name, aside)
	}
	return d.failure("open", aside, err)
}

func (d *dirHandle) rename(from, to string) error {
	d.before("renameat2", from)
	return change.Renameat2(d.dir, from, d.dir, to, d.b.r.guards.noreplace)
}
