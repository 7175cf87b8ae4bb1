package beneath

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Entry is an entry of a directory as getdents64(2) returns it. Its name may be any bytes.
type Entry struct {
	Name string
	Kind uint8 // DT_DIR and so on; DT_UNKNOWN if the file system does not report it
	Ino  uint64
}

// ErrTooMany reports a directory with more entries than the caller wants.
var ErrTooMany = errors.New("too many entries")

var errBadEntry = errors.New("getdents64 returned a malformed entry")

// Names reads an open directory piece by piece, so that a hundred thousand entries need no more memory than a few. A copy
// continues from the same place.
type Names struct {
	buf, rest []byte // rest is the part of buf that was not returned yet
	fd        int
}

// NamesOf returns Names for the directory fd. It uses buf until the end.
func NamesOf(fd int, buf []byte) Names { return Names{fd: fd, buf: buf} }

// Next returns the next entry except "." and "..", and false at the end.
func (n *Names) Next() (Entry, bool, error) {
	for {
		if len(n.rest) == 0 {
			if more, err := n.fill(); !more {
				return Entry{}, false, err
			}
		}
		e, err := n.parse()
		if err != nil {
			return Entry{}, false, err
		}
		if e.Name != "." && e.Name != ".." {
			return e, true, nil
		}
	}
}

// Piece returns the entries of one system call except "." and "..", in the memory of into, and false at the end.
func (n *Names) Piece(into []Entry) ([]Entry, bool, error) {
	into = into[:0]
	more, err := n.fill()
	for len(n.rest) > 0 && err == nil {
		var e Entry
		if e, err = n.parse(); err == nil && e.Name != "." && e.Name != ".." {
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

// parse parses one entry and advances past it:
//
//	u64 d_ino; s64 d_off; u16 d_reclen; u8 d_type; char d_name[] with a NUL
func (n *Names) parse() (Entry, error) {
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

// EachName calls each for every entry of the open directory fd. If each returns false, it returns ErrTooMany. buf is
// scratch memory.
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

// List returns up to limit entries, and with them ErrTooMany if there are more.
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
