package beneath

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Dir is a handle of a directory, or of a file of any type that Handle opened. A nil Dir is valid: Close does nothing.
type Dir struct {
	fd   int
	open *Opener
}

// At returns a Dir for an open directory. Close closes the descriptor.
func (o *Opener) At(fd int) *Dir { return &Dir{fd, o} }

// Open returns an O_PATH handle of the directory at the administrator's path, following links.
func (o *Opener) Open(path string) (*Dir, error) { return o.dir(OpenDirPath(path)) }

// OpenDirPath is Open without an Opener.
func OpenDirPath(path string) (int, error) {
	fd, err := OpenTrusted(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, PathError("open", path, err)
	}
	return fd, nil
}

func (o *Opener) dir(fd int, err error) (*Dir, error) {
	if err != nil {
		return nil, err
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

// Step opens the directory name to list it. EXDEV: it is a mount point. ENOTDIR, ELOOP: it is not a
// directory. If it cannot be determined whether it is a mount point, the error wraps no errno.
func (d *Dir) Step(name string) (*Dir, error) { return d.step(name, ReadDir) }

func (d *Dir) step(name string, flags int) (*Dir, error) {
	if d == nil {
		return nil, unix.EBADF
	}
	return d.open.dir(d.open.step(d.fd, name, flags))
}

// Handle returns an O_PATH handle of a file of any type, also a symbolic link or device.
func (d *Dir) Handle(name string) (*Dir, error) { return d.step(name, OPath) }

// Cross is Step for a directory that may be a mount point, below a path of the administrator. Without openat2, a single name
// and O_NOFOLLOW are enough.
func (d *Dir) Cross(name string) (*Dir, error) {
	const flags = ReadDir &^ unix.O_NOATIME
	if err := oneName(name); err != nil {
		return nil, err
	}
	if d.open.fallback != nil {
		return d.open.dir(Retry(func() (int, error) { return unix.Openat(d.fd, name, flags, 0) }))
	}
	return d.open.dir(d.open.resolve(d.fd, name, flags, d.open.down&^unix.RESOLVE_NO_XDEV))
}

// Descend opens the administrator's path base, following links, and then at least one name below it, following
// none. Mounts on the way are crossed. The error contains the name and, if it is not a directory, its type.
func (o *Opener) Descend(base string, names ...string) (*Dir, error) {
	at, err := o.Open(base)
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		parent := at
		if at, err = parent.Cross(name); err != nil {
			if st, serr := parent.StatName(name); serr == nil && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
				err = fmt.Errorf("it is %s: %w", TypeName(st.Mode), err)
			}
			err = PathError("open", name, err)
		}
		parent.Close()
	}
	return at, err
}

// Parent opens the parent of d. EXDEV: a mount covers d.
func (d *Dir) Parent() (*Dir, error) {
	return d.open.dir(d.open.resolve(d.fd, "..", ReadDir, d.open.up))
}

// Walk opens one or more names in turn. The error contains the name and, if it is a mount point, reports that.
func (d *Dir) Walk(names ...string) (*Dir, error) {
	at := d
	for _, name := range names {
		next, err := at.Step(name)
		if at != d {
			at.Close()
		}
		if err != nil {
			return nil, openError(name, err)
		}
		at = next
	}
	return at, nil
}

var errMount = fmt.Errorf("it is a mount point: %w", unix.EXDEV)

func openError(name string, err error) error {
	if errors.Is(err, unix.EXDEV) {
		err = errMount
	}
	return PathError("open", name, err)
}

// Identify returns the identity of the directory name. EXDEV: it is a mount point. ENOTDIR, ELOOP: it is not a directory.
func (d *Dir) Identify(name string) (policy.DirID, error) {
	at, err := d.step(name, OPathDir)
	if err != nil {
		return policy.DirID{}, err
	}
	defer at.Close()
	st, err := at.Stat()
	if err != nil {
		return policy.DirID{}, err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 { // the step has already refused it; a second check costs nothing
		return policy.DirID{}, unix.EXDEV
	}
	return DirID(&st), nil
}

// Stat returns the status of the file of the handle.
func (d *Dir) Stat() (unix.Statx_t, error) { return Stat(d.FD()) }

// StatName returns the status of a name, as the function StatName does.
func (d *Dir) StatName(name string) (unix.Statx_t, error) { return StatName(d.FD(), name) }

// ID returns the identity of the directory.
func (d *Dir) ID() (policy.DirID, error) { return IDOf(d.FD()) }

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
	same, err := d.open.same(d.fd, other.fd)
	return err == nil && same
}

// Beyond returns the first entry of the directory other than an empty directory whose name empty accepts, "" if there is
// none. It is for messages.
func (d *Dir) Beyond(empty func(name string) bool) (string, error) {
	names, listed := List(d.FD(), 3)
	for _, e := range names {
		if !empty(e.Name) {
			return e.Name, nil
		}
		below, err := d.Step(e.Name)
		switch {
		case Gone(err):
			continue
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return e.Name + " (not a directory, or a mount point)", nil
		case err != nil:
			return "", openError(e.Name, err)
		}
		in, err := List(below.FD(), 1)
		below.Close()
		if len(in) > 0 {
			return e.Name + "/" + in[0].Name, nil
		}
		if err != nil {
			return "", PathError("getdents64", e.Name, err)
		}
	}
	return "", listed
}

// Rewind makes the next listing start at the first entry.
func (d *Dir) Rewind() error {
	_, err := unix.Seek(d.fd, 0, 0)
	return err
}

// Within reports whether the directory is dir or lies below it. It goes up across mounts. With an error it returns true.
func (d *Dir) Within(dir policy.DirID) (bool, error) {
	at, err := unix.Openat(d.fd, ".", OPathDir, 0)
	if err != nil {
		return true, err
	}
	defer func() { Close(at) }()
	last := policy.DirID{}
	for range 256 {
		id, err := IDOf(at)
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
		up, err := unix.Openat(at, "..", OPathDir, 0)
		if err != nil {
			return true, err
		}
		Close(at)
		at = up
	}
	return true, unix.ELOOP
}
