package beneath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// NotRegularError reports that a file is not regular and was not read.
type NotRegularError struct{ mode uint16 }

func (e NotRegularError) Error() string { return "it is " + TypeName(e.mode) + ", not a regular file" }

func regular(st *unix.Statx_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return NotRegularError{st.Mode}
	}
	return nil
}

// openRegular opens the regular file name below d for reading. It never opens a FIFO, socket or device: it checks the type of
// an O_PATH handle first.
func (d *Dir) openRegular(name string) (int, unix.Statx_t, error) {
	handle, err := d.Handle(name)
	if err != nil {
		return -1, unix.Statx_t{}, openError(name, err)
	}
	defer handle.Close()
	st, err := handle.Stat()
	if err != nil {
		return -1, st, PathError("statx", name, err)
	}
	if err := regular(&st); err != nil {
		return -1, st, PathError("open", name, err)
	}
	fd, err := reopen(handle.fd)
	if err != nil {
		return -1, st, PathError("open", name, err)
	}
	return fd, st, nil
}

// RootFile opens a regular file with two system calls instead of five, for directories that hold very many files and that
// only root can write to. kind is the type in the listing. If a FIFO or device has replaced the file since the listing, it is
// opened without waiting and not read.
func (d *Dir) RootFile(name string, kind uint8) (int, unix.Statx_t, error) {
	var st unix.Statx_t
	if kind != unix.DT_REG {
		var err error
		if st, err = d.StatName(name); err != nil {
			return -1, st, PathError("statx", name, err)
		}
		if err := regular(&st); err != nil {
			return -1, st, err
		}
	}
	fd, err := d.open.step(d.fd, name, ReadRegular)
	if err != nil {
		return -1, st, openError(name, err)
	}
	if st, err = Stat(fd); err == nil {
		err = regular(&st)
	}
	if err != nil {
		Close(fd)
		return -1, st, err
	}
	return fd, st, nil
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

// ReadFile reads the regular file name below d. A file longer than limit is an error.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	fd, st, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer Close(fd)
	text, err := ReadAll(fd, int64(min(st.Size, 1<<40)), limit)
	if err != nil {
		return nil, PathError("read", name, err)
	}
	return text, nil
}

// ReadAll reads to the end; size is the file's reported length.
func ReadAll(fd int, size, limit int64) ([]byte, error) {
	room := min(size, limit) + 1
	if size == 0 {
		room = 512
	}
	return ReadInto(fd, make([]byte, 0, room), size, limit)
}

// ErrTooLong reports a file that is longer than the limit.
var ErrTooLong = errors.New("longer")

// ReadInto is ReadAll into a buffer, which it returns grown to at most one byte above the limit. If the buffer has room for
// more and the content has the reported length, it does not read again for the end of the file: that saves 300,000 calls for
// 300,000 small files. The files of procfs and cgroupfs report a size of 0.
func ReadInto(fd int, text []byte, size, limit int64) ([]byte, error) {
	tooLong := func() error { return fmt.Errorf("%w than %d bytes", ErrTooLong, limit) }
	if size > limit {
		return nil, tooLong()
	}
	for {
		if len(text) == cap(text) {
			more := make([]byte, len(text), min(max(2*int64(len(text)), 512), limit+1))
			copy(more, text)
			text = more
		}
		n, err := Retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
		if int64(len(text)) > limit {
			return nil, tooLong()
		}
		if size > 0 && int64(len(text)) == size && len(text) < cap(text) {
			return text, nil
		}
	}
}

// ReadNamed reads the regular file at a path, of at most limit bytes. The path must come from an operator or proc(5), never
// from a pod. O_NONBLOCK keeps the open of a FIFO from waiting for a writer.
func ReadNamed(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return ReadOpened(f, limit)
}

// ReadOpened is ReadNamed for an open file.
func ReadOpened(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %s: it is %s", f.Name(), TypeOf(f))
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("cannot read %s: it is longer than %d bytes", f.Name(), limit)
	}
	return b, err
}

// TypeOf returns the name of an open file's type.
func TypeOf(f *os.File) string {
	st, err := Stat(int(f.Fd()))
	if err != nil {
		return err.Error()
	}
	return TypeName(st.Mode)
}
