package sim

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// memory is the state directory: a few files, in memory. What was written stays when the program is killed, also half a line.
type memory struct {
	*node
	files     map[string]*file
	inodes    uint64
	free      int64           // where the disk is full: what somebody gave back
	manifests map[string]bool // beside the entries in quarantine
}

type file struct {
	name   string
	ino    uint64
	data   []byte
	hole   int64 // of its size, what was allocated and not written
	locked bool
}

// handle is one opening of a file.
type handle struct {
	*file
	m    *memory
	at   int64
	lock bool
}

var _ state.Dir = (*memory)(nil)

func (f *file) size() int64 { return int64(len(f.data)) + f.hole }

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

func (m *memory) Stat(name string) (fs.FileInfo, error) { return m.Lstat(name) }

func (m *memory) Lstat(name string) (fs.FileInfo, error) {
	if name == "." {
		return info{&file{name: "."}}, nil
	}
	if f := m.files[name]; f != nil {
		return info{f}, nil
	}
	return nil, missing("lstat", name)
}

func (m *memory) ReadFile(name string) ([]byte, error) {
	if f := m.files[name]; f != nil {
		return append([]byte(nil), f.data...), nil
	}
	return nil, missing("open", name)
}

func (m *memory) OpenFile(name string, flag int, _ fs.FileMode) (state.File, error) {
	if name == "." {
		return &handle{file: &file{name: name}, m: m}, nil
	}
	f := m.files[name]
	if f == nil && flag&os.O_CREATE == 0 {
		return nil, missing("open", name)
	}
	if f == nil {
		m.inodes++
		f = &file{name: name, ino: m.inodes}
		m.files[name] = f
	}
	h := &handle{file: f, m: m}
	if flag&os.O_TRUNC != 0 {
		_ = h.Truncate(0)
	}
	return h, nil
}

func (m *memory) Mkdir(string, fs.FileMode) error { return nil }

func (m *memory) Rename(from, to string) error {
	m.reach(stepWrite, "")
	f := m.files[from]
	if f == nil {
		return missing("rename", from)
	}
	if old := m.files[to]; old != nil {
		m.free += old.size()
	}
	delete(m.files, from)
	f.name, m.files[to] = to, f
	return nil
}

func (m *memory) Remove(name string) error {
	f := m.files[name]
	if f == nil {
		return missing("unlink", name)
	}
	m.free += f.size()
	delete(m.files, name)
	return nil
}

func (m *memory) Same(a, b fs.FileInfo) bool {
	x, ok := a.(info)
	y, also := b.(info)
	return ok && also && x.file == y.file
}

func (m *memory) Close() error { return nil }

// grow takes what a write needs, where the disk has it.
func (m *memory) grow(bytes int64) error {
	if !m.faults.full || bytes <= 0 {
		return nil
	}
	if m.free < bytes {
		m.faults.last = m.now
		return unix.ENOSPC
	}
	m.free -= bytes
	return nil
}

func (h *handle) Read(b []byte) (int, error) {
	n, err := h.ReadAt(b, h.at)
	h.at += int64(n)
	return n, err
}

func (h *handle) Write(b []byte) (int, error) {
	n, err := h.WriteAt(b, h.at)
	h.at += int64(n)
	return n, err
}

func (h *handle) Seek(offset int64, _ int) (int64, error) {
	h.at = offset
	return offset, nil
}

func (h *handle) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(h.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt may be cut off in the middle.
func (h *handle) WriteAt(b []byte, at int64) (int, error) {
	m := h.m
	if m.faults.io > 0 && m.oneIn(m.faults.io) {
		m.faults.last = m.now
		return 0, unix.EIO
	}
	half := int64(len(b) / 2)
	for _, end := range [...]int64{half, int64(len(b))} {
		m.reach(stepWrite, "")
		if err := m.grow(at + end - h.size()); err != nil {
			return 0, err
		}
		if more := at + end - int64(len(h.data)); more > 0 {
			h.hole = max(0, h.hole-more)
			was := len(h.data)
			h.data = slices.Grow(h.data, int(more))[:at+end]
			clear(h.data[was:])
		}
		copy(h.data[at:at+end], b[:end])
	}
	m.reach(stepWrite, "") // written, and nobody knows it yet
	return len(b), nil
}

func (h *handle) Truncate(size int64) error {
	h.m.free += max(0, h.size()-size)
	h.data = h.data[:min(int64(len(h.data)), size)]
	h.hole = max(0, size-int64(len(h.data)))
	return nil
}

func (h *handle) Allocate(offset, bytes int64) error {
	more := max(0, offset+bytes-h.size())
	if err := h.m.grow(more); err != nil {
		return err
	}
	h.hole += more
	return nil
}

func (h *handle) Room() (state.Room, error) {
	if h.m.faults.full {
		return state.Room{}, nil
	}
	return state.Room{Bytes: 1 << 30}, nil
}

func (h *handle) Lock() error {
	if h.locked {
		return unix.EWOULDBLOCK
	}
	h.locked, h.lock = true, true
	return nil
}

func (h *handle) Close() error {
	if h.lock {
		h.locked, h.lock = false, false
	}
	return nil
}

func (h *handle) Sync() error                        { return nil }
func (h *handle) Datasync() error                    { return nil }
func (h *handle) Name() string                       { return h.name }
func (h *handle) Stat() (fs.FileInfo, error)         { return info{h.file}, nil }
func (h *handle) ReadDir(int) ([]fs.DirEntry, error) { return nil, nil }

// info is what stat(2) says of a file.
type info struct{ *file }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size() }
func (i info) ModTime() time.Time { return epoch }
func (i info) IsDir() bool        { return i.name == "." }

func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

func (i info) Sys() any {
	return &syscall.Stat_t{Uid: uint32(os.Geteuid()), Blocks: i.size() / 512, Ino: i.ino}
}
