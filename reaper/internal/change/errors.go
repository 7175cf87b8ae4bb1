package change

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Is reports whether err wraps one of these errnos.
func Is(err error, these ...unix.Errno) bool {
	e, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(these, e)
}

// Explain adds what an operator can do about err. It leaves out EXDEV, which has another cause in each caller.
func Explain(err error) error {
	var hint string
	switch {
	case errors.Is(err, unix.EBUSY):
		hint = "something is mounted on it; unmount it first"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		hint = "it may be immutable (lsattr -d), or this process lacks CAP_DAC_OVERRIDE and CAP_FOWNER"
	case errors.Is(err, unix.EROFS):
		hint = "the file system is read-only"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = "the file system is full"
	case errors.Is(err, unix.EEXIST):
		hint = "the name is in use"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		hint = "this file system cannot rename without replacing"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
