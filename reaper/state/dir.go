package state

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is a store's directory: an os.Root, or a simulator's memory.
type Dir interface {
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadFile(name string) ([]byte, error)
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	Rename(from, to string) error
	Remove(name string) error
	Same(a, b fs.FileInfo) bool // os.SameFile
	Close() error
}

// absent is a missing directory, which is read as an empty one.
type absent struct{ Dir }

func (absent) Stat(string) (fs.FileInfo, error)                { return nil, fs.ErrNotExist }
func (absent) Lstat(string) (fs.FileInfo, error)               { return nil, fs.ErrNotExist }
func (absent) ReadFile(string) ([]byte, error)                 { return nil, fs.ErrNotExist }
func (absent) OpenFile(string, int, fs.FileMode) (File, error) { return nil, fs.ErrNotExist }
func (absent) Close() error                                    { return nil }

// File is one of a store's files.
type File interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	ReadDir(n int) ([]fs.DirEntry, error)
	Truncate(size int64) error
	Sync() error
	Datasync() error                    // fdatasync(2)
	Lock() error                        // flock(2), without waiting
	Allocate(offset, bytes int64) error // fallocate(2)
	Room() (Room, error)                // of its file system
}

// Room is the free space of a file system for users other than root.
type Room struct {
	Bytes   uint64
	NoInode bool // no file can be created
}

var errNotRegular = errors.New("it is no regular file")

// disk is a directory of a file system.
type disk struct{ *os.Root }

func (d disk) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := d.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// ReadFile waits for no writer where somebody has put a FIFO.
func (d disk) ReadFile(name string) ([]byte, error) {
	f, err := d.Root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func (disk) Same(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

type diskFile struct{ *os.File }

func (f diskFile) Datasync() error { return unix.Fdatasync(int(f.Fd())) }

func (f diskFile) Lock() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func (f diskFile) Allocate(offset, bytes int64) error {
	return unix.Fallocate(int(f.Fd()), 0, offset, bytes)
}

func (f diskFile) Room() (Room, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	// Files is 0 on btrfs, which has no such limit.
	return Room{Bytes: st.Bavail * uint64(st.Bsize), NoInode: st.Files > 0 && st.Ffree == 0}, err
}
