package reaper_test

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
)

// memory is the state directory: a few files. What was written stays when the program is killed, also half a line. A power
// cut loses what was not synced: any part of the bytes behind the last sync of their file, and any last changes of names.
type memory struct {
	*node
	files     map[string]*file
	inodes    uint64
	free      int64         // while the disk is full: bytes freed since
	unwritten time.Duration // when a write failed last
	undo      []func()      // the changes of names since the last sync
}

type file struct {
	name   string
	ino    uint64
	data   []byte
	synced []byte
	hole   int64 // of its size, what was allocated and not written
	locked bool
	dirty  bool // written since the last sync
}

// handle is one opening of a file.
type handle struct {
	*file
	m    *memory
	at   int64
	lock bool
}

var _ ledger.Dir = (*memory)(nil)

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

func (m *memory) OpenFile(name string, flag int, _ fs.FileMode) (ledger.File, error) {
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
		m.undo = append(m.undo, func() { delete(m.files, name) })
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
	old := m.files[to]
	if old != nil {
		m.free += old.size()
	}
	delete(m.files, from)
	f.name, m.files[to] = to, f
	m.undo = append(m.undo, func() {
		if f.name, m.files[from] = from, f; old != nil {
			m.files[to] = old
		} else {
			delete(m.files, to)
		}
	})
	return nil
}

func (m *memory) Remove(name string) error {
	f := m.files[name]
	if f == nil {
		return missing("unlink", name)
	}
	m.free += f.size()
	delete(m.files, name)
	m.undo = append(m.undo, func() { m.files[name] = f })
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
	if m.faults[diskFull] == 0 || bytes <= 0 {
		return nil
	}
	if m.free < bytes {
		m.trouble, m.unwritten = m.now, m.now
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
	if m.faults[writesFail] > 0 && m.oneIn(3) {
		m.trouble, m.unwritten = m.now, m.now
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
		h.dirty = true
	}
	m.reach(stepWrite, "") // written, and not yet acknowledged
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

func (h *handle) Room() (ledger.Room, error) {
	if h.m.faults[diskFull] > 0 {
		return ledger.Room{}, nil
	}
	return ledger.Room{Bytes: 1 << 30}, nil
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

// Sync makes what the file holds safe, and that of the directory all changes of names so far: fsync(2) of a file does not sync
// its name.
func (h *handle) Sync() error {
	if h.name == "." {
		h.m.undo = nil
	}
	h.dirty = false
	h.synced = append(h.synced[:0], h.data...)
	return nil
}

// lose is the power loss.
func (m *memory) lose() {
	for keep := m.dice.IntN(len(m.undo) + 1); len(m.undo) > keep; m.undo = m.undo[:len(m.undo)-1] {
		m.undo[len(m.undo)-1]()
	}
	m.undo = nil
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		f := m.files[name]
		f.locked = false
		if safe := len(f.synced); !bytes.HasPrefix(f.data, f.synced) {
			f.data = f.data[:m.dice.IntN(len(f.data)+1)]
		} else if len(f.data) > safe {
			f.data, f.hole = f.data[:safe+m.dice.IntN(len(f.data)-safe+1)], 0
		}
		f.synced = append(f.synced[:0], f.data...)
	}
}

func (h *handle) Datasync() error                    { return h.Sync() }
func (h *handle) Name() string                       { return h.name }
func (h *handle) Stat() (fs.FileInfo, error)         { return info{h.file}, nil }
func (h *handle) ReadDir(int) ([]fs.DirEntry, error) { return nil, nil }

// info is what stat(2) returns for a file.
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
