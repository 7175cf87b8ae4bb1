package beneath

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadNamed reads the file at a path that an operator or proc(5) gives; it must be a regular one of at
// most limit bytes. No directory of a pod is opened like this. O_NONBLOCK
// keeps the open of a FIFO from waiting for a writer.
func ReadNamed(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return ReadOpened(f, limit)
}

// ReadOpened does so with an open file.
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

// TypeOf returns the type of an open file in words.
func TypeOf(f *os.File) string {
	st, err := Stat(int(f.Fd()))
	if err != nil {
		return err.Error()
	}
	return TypeName(st.Mode)
}
