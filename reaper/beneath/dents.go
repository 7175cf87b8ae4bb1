package beneath

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Entry is one name of a directory from getdents64(2). Names are bytes.
type Entry struct {
	Name string
	Kind uint8 // DT_DIR and so on; DT_UNKNOWN where the file system does not report it
	Ino  uint64
}

// ErrTooMany is a directory with more names than the caller wants.
var ErrTooMany = errors.New("too many entries")

var errBadEntry = errors.New("getdents64 gave an entry that does not fit")

// Names reads an open directory piece by piece, so a directory of a hundred thousand names needs no more memory
// than a short one. A copy of it continues from the same place.
type Names struct {
	buf, rest []byte // scratch, and what of it has not been given yet
	fd        int
}

// NamesOf reads the directory fd into buf, which nothing else may use meanwhile.
func NamesOf(fd int, buf []byte) Names { return Names{fd: fd, buf: buf} }

// Next returns the next name but "." and "..", and false at the end.
func (n *Names) Next() (Entry, bool, error) {
	for {
		if len(n.rest) == 0 {
			if more, err := n.fill(); !more {
				return Entry{}, false, err
			}
		}
		e, err := n.take()
		if err != nil {
			return Entry{}, false, err
		}
		if e.Name != "." && e.Name != ".." {
			return e, true, nil
		}
	}
}

// Piece returns what one call gives of the names but "." and "..", in the memory of into, and
// false at the end.
func (n *Names) Piece(into []Entry) ([]Entry, bool, error) {
	into = into[:0]
	more, err := n.fill()
	for len(n.rest) > 0 && err == nil {
		var e Entry
		if e, err = n.take(); err == nil && e.Name != "." && e.Name != ".." {
			into = append(into, e)
		}
	}
	return into, more, err
}

func (n *Names) fill() (bool, error) {
	size, err := Retry(func() (int, error) { return unix.Getdents(n.fd, n.buf) })
	n.rest = n.buf[:max(size, 0)]
	return size > 0, err
}

// take parses one entry and advances past it:
//
//	u64 d_ino; s64 d_off; u16 d_reclen; u8 d_type; char d_name[] with a NUL
func (n *Names) take() (Entry, error) {
	const reclen, kind, name = 16, 18, 19
	if len(n.rest) <= name {
		return Entry{}, errBadEntry
	}
	size := int(binary.NativeEndian.Uint16(n.rest[reclen:]))
	if size <= name || size > len(n.rest) {
		return Entry{}, errBadEntry
	}
	raw := n.rest[:size]
	end := bytes.IndexByte(raw[name:], 0)
	if end <= 0 {
		return Entry{}, errBadEntry
	}
	n.rest = n.rest[size:]
	return Entry{string(raw[name : name+end]), raw[kind], binary.NativeEndian.Uint64(raw)}, nil
}

// EachName gives every name of the open directory fd to each, until each returns false;
// it is then ErrTooMany. buf is scratch.
func EachName(fd int, buf []byte, each func(Entry) bool) error {
	n := NamesOf(fd, buf)
	for {
		e, ok, err := n.Next()
		if err != nil || !ok {
			return err
		}
		if !each(e) {
			return ErrTooMany
		}
	}
}

// List returns up to limit names, and ErrTooMany with them where there are more.
func List(fd, limit int) ([]Entry, error) {
	var out []Entry
	err := EachName(fd, make([]byte, 32<<10), func(e Entry) bool {
		if len(out) == limit {
			return false
		}
		out = append(out, e)
		return true
	})
	return out, err
}
