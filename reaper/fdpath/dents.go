package fdpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// entry is an entry of a directory in a buffer that getdents64(2) has filled:
//
//	u64 d_ino; s64 d_off; u16 d_reclen; u8 d_type; char d_name[] with a NUL
type entry struct {
	ino  uint64
	at   uint32 // of the name in the buffer
	len  uint16 // of the name
	kind uint8  // DT_DIR and so on; DT_UNKNOWN if the file system does not report it
}

func (e entry) name(buf []byte) string { return string(buf[e.at : e.at+uint32(e.len)]) }

var errBadEntry = errors.New("getdents64 returned a malformed entry")

// getdents fills buf with the next entries of the directory fd, and appends those but "." and ".." to list. It returns false
// at the end.
func getdents(fd int, buf []byte, list []entry) ([]entry, bool, error) {
	n, err := Retry(func() (int, error) { return unix.Getdents(fd, buf) })
	if err != nil || n == 0 {
		return list, false, err
	}
	list, err = parse(buf[:n], list)
	return list, err == nil, err
}

func parse(buf []byte, list []entry) ([]entry, error) {
	const reclen, kind, name = 16, 18, 19
	for at := 0; at < len(buf); {
		raw := buf[at:]
		if len(raw) <= name {
			return list, errBadEntry
		}
		size := int(binary.NativeEndian.Uint16(raw[reclen:]))
		if size <= name || size > len(raw) {
			return list, errBadEntry
		}
		end := bytes.IndexByte(raw[name:size], 0)
		if end <= 0 {
			return list, errBadEntry
		}
		if text := raw[name : name+end]; string(text) != "." && string(text) != ".." {
			list = append(list, entry{binary.NativeEndian.Uint64(raw), uint32(at + name), uint16(end), raw[kind]})
		}
		at += size
	}
	return list, nil
}

// ErrTooMany reports a directory with more entries than the caller wants.
var ErrTooMany = errors.New("too many entries")

// Entry is an entry of a directory. Its name may be any bytes but slash and NUL.
type Entry struct {
	Name string
	Kind uint8 // DT_DIR and so on; DT_UNKNOWN if the file system does not report it
}

// listSize is some 1,600 names.
const listSize = 64 << 10

// listBuffers are the buffers of List. A scan of a node lists some ten directories of each pod.
var listBuffers = sync.Pool{New: func() any { return new([listSize]byte) }}

// List returns up to limit entries from the beginning, and with them ErrTooMany if there are more.
func (d *Dir) List(limit int) ([]Entry, error) {
	var out []Entry
	err := d.Each(func(e Entry) error {
		if len(out) == limit {
			return ErrTooMany
		}
		out = append(out, e)
		return nil
	})
	return out, err
}

// Each calls each with every entry from the beginning, and stops at its first error. It holds some 64 KiB of names at a time.
func (d *Dir) Each(each func(Entry) error) error {
	if err := d.Rewind(); err != nil {
		return err
	}
	var list []entry
	buffer := listBuffers.Get().(*[listSize]byte) //nolint:forcetypeassert // New returns no other
	defer listBuffers.Put(buffer)
	buf := buffer[:]
	for {
		var more bool
		var err error
		if list, more, err = getdents(d.FD(), buf, list[:0]); err != nil || !more {
			return err
		}
		for _, e := range list {
			if err := each(Entry{e.name(buf), e.kind}); err != nil {
				return err
			}
		}
	}
}
