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
	fd, err := reopen(handle.fd)
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

// reopen opens for reading the regular file of an O_PATH handle.
func reopen(handle int) (int, error) {
	self := "/proc/thread-self/fd/" + strconv.Itoa(handle)
	fd, err := Retry(func() (int, error) { return unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOATIME, 0) })
	if errors.Is(err, unix.EPERM) {
		fd, err = Retry(func() (int, error) { return unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	}
	return fd, err
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
