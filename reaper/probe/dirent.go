package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// dirent is one name of a directory as getdents64 gives it.
type dirent struct {
	name string
	kind uint8 // DT_DIR and so on; DT_UNKNOWN where the file system does not say
}

// Offsets of struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// errTooMany is a directory with more names than the caller wants to know.
var errTooMany = errors.New("too many entries")

// names reads an open directory piece by piece, so that one of a hundred thousand names
// needs no more memory than a short one.
type names struct {
	fd        int
	buf, rest []byte // scratch, and what of it has not been given yet
}

// next returns the next name but "." and "..", and false at the end. Names are bytes.
func (r *names) next() (dirent, bool, error) {
	for {
		if len(r.rest) < direntName {
			n, err := retry(func() (int, error) { return unix.Getdents(r.fd, r.buf) })
			if err != nil || n == 0 {
				return dirent{}, false, err
			}
			r.rest = r.buf[:n]
		}
		size := int(binary.NativeEndian.Uint16(r.rest[direntReclen:]))
		if size < direntName || size > len(r.rest) {
			return dirent{}, false, errors.New("getdents64 gave an entry that does not fit")
		}
		raw := r.rest[direntName:size]
		if end := bytes.IndexByte(raw, 0); end >= 0 {
			raw = raw[:end]
		}
		kind := r.rest[direntType]
		r.rest = r.rest[size:]
		if string(raw) == "." || string(raw) == ".." {
			continue
		}
		return dirent{string(raw), kind}, true, nil
	}
}

// readNames gives every name of the open directory fd to each, until each returns false;
// it is then errTooMany. buf is scratch.
func readNames(fd int, buf []byte, each func(dirent) bool) error {
	r := names{fd: fd, buf: buf}
	for {
		d, ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		if !each(d) {
			return errTooMany
		}
	}
}

// listDir returns up to limit names.
func listDir(fd, limit int) ([]dirent, error) {
	var out []dirent
	err := readNames(fd, make([]byte, 32<<10), func(d dirent) bool {
		if len(out) == limit {
			return false
		}
		out = append(out, d)
		return true
	})
	return out, err
}

// clean quotes a name that is no clean UTF-8 or holds what a terminal would act on.
func clean(name string) string {
	if !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	for _, r := range name {
		if !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}
