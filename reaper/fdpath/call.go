package fdpath

import (
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// retries bounds how often a call is made again.
const retries = 128

// Retry repeats a call that a signal interrupted (EINTR: the Go runtime sends itself signals to preempt goroutines, and FUSE
// returns EINTR for them, go.dev/issue/38033), or that met a rename or mount somewhere on the system (EAGAIN of openat2(2)).
func Retry(call func() (int, error)) (int, error) {
	for range retries {
		v, err := call()
		if !Is(err, unix.EINTR, unix.EAGAIN) {
			return v, err
		}
	}
	return -1, unix.EAGAIN
}

// Uninterrupted repeats a call that a signal interrupted.
func Uninterrupted(call func() error) error {
	for range retries {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return unix.EINTR
}

// Close closes a descriptor that was not written to, if it is not negative. On Linux close(2) always frees the number, so
// there is nothing to repeat.
func Close(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// PathError returns an error with the failed call and its path. The path is for messages and is never passed to a call.
func PathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: bounded.Name(path), Err: err}
}

// Is reports whether err wraps one of these errnos.
func Is(err error, these ...unix.Errno) bool {
	e, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(these, e)
}

// Gone reports whether the name does not exist.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
