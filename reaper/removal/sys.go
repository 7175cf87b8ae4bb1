package removal

import (
	"cmp"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// same reports whether got is the directory that was judged in a look of this boot.
func same(want, got policy.DirID) bool { return want == got && want != policy.DirID{} }

// sameParked reports whether got is the directory that was parked, which may have been under
// an earlier boot: device numbers are given again at each (dm, nvme, NFS), so the inode and
// its birth must do. The zero value means any.
func sameParked(want, got policy.DirID) bool {
	return want == policy.DirID{} || (want.Ino == got.Ino && want.Btime == got.Btime)
}

// dents reads directories into one buffer, piece by piece.
type dents struct {
	buf  []byte
	list []beneath.Entry
}

// sortFrom is the number of entries from which they are removed in the order of their inodes, which on ext4
// differs from the order of the hashed names.
const sortFrom = 1000

// read fills the list with the next entries but "." and "..". It is false at the end.
func (d *dents) read(dir *beneath.Dir) (bool, error) {
	names := beneath.NamesOf(dir.FD(), d.buf)
	list, more, err := names.Piece(d.list)
	if d.list = list; len(list) >= sortFrom {
		slices.SortFunc(list, func(a, b beneath.Entry) int { return cmp.Compare(a.Ino, b.Ino) })
	}
	if len(list) >= wideFrom && len(d.buf) == firstBuffer {
		d.buf = make([]byte, wideBuffer)
	}
	return more, err
}

const (
	// firstBuffer is the size of the buffer for all directories of a thread until one of them returns wideFrom
	// names at once: fewer never fill it, since a name needs at most 280 bytes. Then the size is wideBuffer.
	firstBuffer = 64 << 10
	wideFrom    = 200
	wideBuffer  = 1 << 20
	// widestBuffer is for a directory that returns widestFrom names at once, by the same sum. The names of one
	// piece are sorted together: with 1 MiB a million files needed 33 rounds over the inode table, and the
	// journal wrote each block of it 33 times (1.57 times the time of rm; with 16 MiB 0.90). Only the filled
	// part uses memory, and the names use five times that, so only one directory of a batch has it at a time.
	widestBuffer = 16 << 20
	widestFrom   = 3500
	// deepBuffer is for all levels below deepFrom: a tree of 128 wide ones needed 148 MiB with wideBuffer.
	deepFrom   = 8
	deepBuffer = firstBuffer - 4<<10
	// mostListed bounds the names that are kept in memory for reuse by the next directory.
	mostListed = 10_000
)

// buffer makes the buffer that the thread reads all directories into.
func (b *batch) buffer() {
	if b.dents.buf == nil {
		b.dents.buf = make([]byte, firstBuffer)
	}
}

// piece reads one piece of f. A directory that turns out to be wide gets the widest buffer for the rest, unless another one has it: that
// may be of a thread that hangs, or have f in it. Each level keeps its names until what is below it is gone, so deep ones read little.
func (w *walker) piece(f *frame) (more bool, err error) {
	d, own := &w.b.dents, w.b.dents.buf
	switch {
	case f.widest != nil:
		d.buf = f.widest
	case len(w.stack) > deepFrom:
		d.buf = own[:deepBuffer]
	default:
		if more, err = d.read(f.dir); len(d.list) >= widestFrom && f.mode != count && w.b.widest.TryLock() {
			f.widest = make([]byte, widestBuffer)
		}
		return more, err
	}
	more, err = d.read(f.dir)
	d.buf = own
	return more, err
}

// close closes a directory that is done with.
func (w *walker) close(f *frame) {
	f.dir.Close()
	if f.widest != nil {
		f.widest = nil
		w.b.widest.Unlock()
	}
}
