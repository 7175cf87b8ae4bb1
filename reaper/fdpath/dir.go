package fdpath

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Dir is a handle of a directory, or of a file of any type that Handle opened. A nil Dir is valid: Close does nothing.
type Dir struct {
	fd     int
	open   *Opener
	listed bool // a listing may have begun
}

// At returns a Dir for an open directory. Close closes the descriptor.
func (o *Opener) At(fd int) *Dir { return &Dir{fd: fd, open: o, listed: true} }

// Open returns an O_PATH handle of the directory at a path that no pod controls, such as the administrator's. It follows
// links.
func (o *Opener) Open(path string) (*Dir, error) {
	fd, err := Retry(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, PathError("open", path, err)
	}
	return o.At(fd), nil
}

// FD returns the descriptor, for calls that change the directory's content, and -1 for nil.
func (d *Dir) FD() int {
	if d == nil {
		return -1
	}
	return d.fd
}

// Close closes the handle. A second Close does nothing.
func (d *Dir) Close() {
	if d != nil {
		Close(d.fd)
		d.fd = -1
	}
}

// Step opens the directory name to list it; "." is the directory itself. EXDEV: it is a mount point. ENOTDIR, ELOOP: it is
// not a directory. If it cannot be determined whether it is a mount point, the error wraps no errno.
func (d *Dir) Step(name string) (*Dir, error) { return d.step(name, readDir) }

// Handle returns an O_PATH handle of a file of any type, also a symbolic link or device. EXDEV: it is a mount point.
func (d *Dir) Handle(name string) (*Dir, error) { return d.step(name, pathAny) }

func (d *Dir) step(name string, flags int) (*Dir, error) {
	fd, err := d.open.step(d.FD(), name, flags)
	if err != nil {
		return nil, err
	}
	return &Dir{fd: fd, open: d.open}, nil
}

// Cross is Step for a directory that may be a mount point. It follows no link.
func (d *Dir) Cross(name string) (*Dir, error) {
	fd, err := d.open.resolve(d.FD(), name, readDir&^unix.O_NOATIME, d.open.flags&^unix.RESOLVE_NO_XDEV)
	if err != nil {
		return nil, err
	}
	return &Dir{fd: fd, open: d.open}, nil
}

// Identify returns the identity of the directory name. EXDEV: it is a mount point. ENOTDIR, ELOOP: it is not a directory.
func (d *Dir) Identify(name string) (judge.FileID, error) {
	at, err := d.step(name, pathDir)
	if err != nil {
		return judge.FileID{}, err
	}
	defer at.Close()
	return at.ID()
}

// Stat returns the status of the file of the handle.
func (d *Dir) Stat() (unix.Statx_t, error) { return Stat(d.FD()) }

// StatName returns the status of a name and follows no link. That of a mount point is of what is mounted there, without a
// request to its server. The name may be "..".
func (d *Dir) StatName(name string) (unix.Statx_t, error) {
	if name == "" {
		return unix.Statx_t{}, unix.ENOENT
	}
	return statx(d.FD(), name, 0)
}

// StatIn returns the status of a name in the directory dir of d, whose status is st, without a handle of dir. It returns
// false if dir is no directory, or if it is a mount point or that is not known: then only a step may go on.
func (d *Dir) StatIn(dir, name string, st *unix.Statx_t) (in unix.Statx_t, ok bool, err error) {
	if !IsDir(st) || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return in, false, nil
	}
	in, err = statx(d.FD(), dir+"/"+name, 0)
	return in, true, err
}

// ID returns the identity of the directory.
func (d *Dir) ID() (judge.FileID, error) {
	st, err := d.Stat()
	if err != nil {
		return judge.FileID{}, err
	}
	return IDOf(&st), nil
}

// Exists reports whether the name exists. It sends no request to a file system that may be mounted there.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := d.StatName(name)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// SameMount reports whether both are known to be on one mount.
func (d *Dir) SameMount(other *Dir) bool {
	same, err := d.open.same(d.FD(), other.FD())
	return err == nil && same
}

// MountID returns the mountinfo ID of the mount that the directory is on.
func (d *Dir) MountID() (uint64, error) { return mountByFdinfo(d.FD()) }

// Within reports whether the directory is dir or lies below it. It goes up across mounts. With an error it returns true.
func (d *Dir) Within(dir judge.FileID) (bool, error) {
	at, err := unix.Openat(d.FD(), ".", pathDir, 0)
	if err != nil {
		return true, err
	}
	defer func() { Close(at) }()
	last := judge.FileID{}
	for range 256 {
		st, err := Stat(at)
		if err != nil {
			return true, err
		}
		switch id := IDOf(&st); id {
		case dir:
			return true, nil
		case last:
			return false, nil // the root is its own parent
		default:
			last = id
		}
		up, err := unix.Openat(at, "..", pathDir, 0)
		if err != nil {
			return true, err
		}
		Close(at)
		at = up
	}
	return true, unix.ELOOP
}

// Rewind makes the next listing start at the first entry.
func (d *Dir) Rewind() error {
	if !d.listed {
		d.listed = true
		return nil
	}
	_, err := unix.Seek(d.FD(), 0, 0)
	return err
}

// OpenError returns the error of a step with its path, and with what the name is.
func OpenError(path string, err error) error {
	switch {
	case errors.Is(err, unix.EXDEV):
		err = fmt.Errorf("it is a mount point: %w", err)
	case Is(err, unix.ENOTDIR, unix.ELOOP):
		err = fmt.Errorf("it is no directory: %w", err)
	}
	return PathError("open", path, err)
}
