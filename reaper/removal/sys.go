package removal

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func unlinkat(dirfd int, name string, flags int) error {
	return beneath.Uninterrupted(func() error { return unix.Unlinkat(dirfd, name, flags) })
}

func renameat(from int, name string, to int, as string, flags uint) error {
	return beneath.Uninterrupted(func() error { return unix.Renameat2(from, name, to, as, flags) })
}

func fsync(fd int) error {
	return beneath.Uninterrupted(func() error { return unix.Fsync(fd) })
}

func rewind(fd int) error {
	_, err := unix.Seek(fd, 0, 0)
	return err
}

// is reports whether err is one of the given. An error of our own is none.
func is(err error, these ...unix.Errno) bool {
	e, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(these, e)
}

// same reports whether got is the directory that was judged in a look of this boot.
func same(want, got policy.DirID) bool { return want == got && want != policy.DirID{} }

// sameParked reports whether got is the directory that was parked, which may have been under
// an earlier boot: device numbers are given anew at each (dm, nvme, NFS), so the inode and
// its birth must do. The zero value means any.
func sameParked(want, got policy.DirID) bool {
	return want == policy.DirID{} || (want.Ino == got.Ino && want.Btime == got.Btime)
}

// dents reads directories into one buffer, piece by piece.
type dents struct {
	buf  []byte
	list []beneath.Entry
}

// sortFrom: from here on the entries are taken in the order of their inodes, which on
// ext4 lie on disk in another order than the hashed names do.
const sortFrom = 1000

// read fills the list with the next entries but "." and "..". It is false at the end.
func (d *dents) read(fd int) (bool, error) {
	names := beneath.NamesOf(fd, d.buf)
	list, more, err := names.Piece(d.list)
	if d.list = list; len(list) >= sortFrom {
		slices.SortFunc(list, func(a, b beneath.Entry) int { return cmp.Compare(a.Ino, b.Ino) })
	}
	return more, err
}
