package fdpath

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// NotRegularError reports that a file is not regular and was not read.
type NotRegularError struct{ Type string }

func (e NotRegularError) Error() string { return "it is " + e.Type + ", not a regular file" }

// ErrTooLong reports a file that is longer than the limit.
var ErrTooLong = errors.New("longer")

// ReadFile reads the regular file name, of at most limit bytes. It never opens a FIFO, socket or device: it checks the type
// of an O_PATH handle first, and opens the file of this handle.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	text, _, err := d.ReadStat(name, limit)
	return text, err
}

// ReadStat is ReadFile, and returns the file's status from before the first read.
func (d *Dir) ReadStat(name string, limit int64) ([]byte, unix.Statx_t, error) {
	handle, err := d.Handle(name)
	if err != nil {
		return nil, unix.Statx_t{}, PathError("open", name, err)
	}
	defer handle.Close()
	st, err := handle.Stat()
	if err != nil {
		return nil, st, PathError("statx", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, PathError("open", name, NotRegularError{TypeName(&st)})
	}
	fd, err := reopen(handle.fd, readFile)
	if errors.Is(err, unix.EPERM) {
		fd, err = reopen(handle.fd, readFile&^unix.O_NOATIME)
	}
	if err != nil {
		return nil, st, PathError("open", name, err)
	}
	defer Close(fd)
	text, err := readAll(fd, limit)
	if err != nil {
		return nil, st, PathError("read", name, err)
	}
	return text, st, nil
}

// ErrChanged reports a file that is another one than was seen, or was changed since.
var ErrChanged = errors.New("it was changed or replaced since it was judged")

// Seen recognizes a regular file that was read before: every write changes the change time.
type Seen struct {
	Ino   uint64
	Ctime int64 // in nanoseconds
}

// Is reports whether the status is of this file as it was seen.
func (s Seen) Is(st *unix.Statx_t) bool {
	return st.Ino == s.Ino && Nanos(st.Ctime) == s.Ctime && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// ReadSeen is ReadStat of a file that was seen, and returns ErrChanged if the name has another one by now. It opens the name
// at once, without a handle. So it is only for a directory in which no pod can make a device: to open one may change it.
func (d *Dir) ReadSeen(name string, seen Seen, limit int64) ([]byte, unix.Statx_t, error) {
	fd, err := d.open.step(d.FD(), name, readFile)
	if err != nil {
		return nil, unix.Statx_t{}, PathError("open", name, err)
	}
	defer Close(fd)
	st, err := Stat(fd)
	if err != nil {
		return nil, st, PathError("statx", name, err)
	}
	if !seen.Is(&st) {
		return nil, st, PathError("read", name, ErrChanged)
	}
	text, err := readAll(fd, limit)
	if err != nil {
		return nil, st, PathError("read", name, err)
	}
	return text, st, nil
}

// reopen opens the file of an O_PATH handle by its link in procfs.
func reopen(handle, flags int) (int, error) {
	self := "/proc/thread-self/fd/" + strconv.Itoa(handle)
	return Retry(func() (int, error) { return unix.Open(self, flags&^unix.O_NOFOLLOW, 0) })
}

// readAll reads to the end. It reports a file longer than limit as ErrTooLong.
func readAll(fd int, limit int64) ([]byte, error) {
	text := make([]byte, 0, min(limit+1, 1024))
	for {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, min(2*int64(cap(text)), limit+1)), text...)
		}
		n, err := Retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; int64(len(text)) > limit {
			return nil, fmt.Errorf("%w than %d bytes", ErrTooLong, limit)
		}
	}
}
