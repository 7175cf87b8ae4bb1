package removal

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func rewind(fd int) error {
	_, err := unix.Seek(fd, 0, 0)
	return err
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
