package removal

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// dirent is one entry of the directory that was read last; off is where its name begins
// in the buffer.
type dirent struct {
	ino uint64
	off uint32
	len uint16
	typ uint8
}

// dents reads directories into one buffer, as getdents64(2) fills it:
//
//	u64 d_ino; s64 d_off; u16 d_reclen; u8 d_type; char d_name[] with a NUL
type dents struct {
	buf  []byte
	list []dirent
}

const (
	// direntHead is where the name begins.
	direntHead = 8 + 8 + 2 + 1
	// sortFrom: from here on the entries are taken in the order of their inodes, which on
	// ext4 lie on disk in another order than the hashed names do.
	sortFrom = 32 << 10
)

// read fills the list with the next entries but "." and "..". It is false at the end.
func (d *dents) read(fd int) (bool, error) {
	n, err := getdents(fd, d.buf)
	if err != nil {
		return false, err
	}
	d.list = d.list[:0]
	for at := 0; at+direntHead < n; {
		rec := d.buf[at:n]
		size := int(binary.NativeEndian.Uint16(rec[16:]))
		if size <= direntHead || size > len(rec) {
			return false, unix.EIO
		}
		name := rec[direntHead:size]
		length := slices.Index(name, 0)
		if length <= 0 {
			return false, unix.EIO
		}
		if !dot(name[:length]) {
			d.list = append(d.list, dirent{
				ino: binary.NativeEndian.Uint64(rec),
				off: uint32(at + direntHead), len: uint16(length), typ: rec[18], //nolint:gosec // both are below 16 MiB and 255
			})
		}
		at += size
	}
	if n >= sortFrom {
		slices.SortFunc(d.list, func(a, b dirent) int {
			if a.ino < b.ino {
				return -1
			}
			return 1
		})
	}
	return n > 0, nil
}

func dot(name []byte) bool {
	return name[0] == '.' && (len(name) == 1 || len(name) == 2 && name[1] == '.')
}

// ptr is the entry's name where the kernel wrote it, with its NUL. It is good until the
// next read.
func (d *dents) ptr(e dirent) *byte { return &d.buf[e.off] }

// name copies the entry's name.
func (d *dents) name(e dirent) cname {
	return cname(d.buf[e.off : int(e.off)+int(e.len)+1])
}
