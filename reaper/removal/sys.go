package removal

import (
	"cmp"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// same reports whether got is the directory that was judged during this boot.
func same(want, got policy.DirID) bool { return want == got && want != policy.DirID{} }

// sameParked reports whether got is the directory that was parked, perhaps during an earlier boot. It does not
// compare device numbers, since they change at a boot (dm, nvme, NFS). A zero want matches any directory.
func sameParked(want, got policy.DirID) bool {
	return want == policy.DirID{} || (want.Ino == got.Ino && want.Btime == got.Btime)
}

// dents reads directories into one buffer, piece by piece.
type dents struct {
	buf  []byte
	list []beneath.Entry
}

// sortFrom is the number of entries from which they are removed in the order of their inodes. ext4 lists them in
// the order of their hashed names, which is slower.
const sortFrom = 1000

// read fills the list with the next entries except "." and "..". It returns false at the end.
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
	// A thread reads all directories into a buffer of firstBuffer bytes. Once a directory returns wideFrom names
	// at once, which may fill it (a name needs at most 280 bytes), the buffer has wideBuffer bytes.
	firstBuffer = 64 << 10
	wideFrom    = 200
	wideBuffer  = 1 << 20
	// A directory that returns widestFrom names at once gets widestBuffer. The names of one piece are sorted
	// together: with 1 MiB, a million files needed 33 rounds over the inode table, and the journal wrote each of its
	// blocks 33 times (1.57 times the time of rm; with 16 MiB 0.90). Only the filled part uses memory, and the
	// names use five times that, so only one directory of a batch has it at a time.
	widestBuffer = 16 << 20
	widestFrom   = 3500
	// Levels below deepFrom use deepBuffer: a tree of 128 wide directories needed 148 MiB with wideBuffer.
	deepFrom   = 8
	deepBuffer = firstBuffer - 4<<10
	// mostListed limits the names that are kept in memory for reuse by the next directory.
	mostListed = 10_000
)

// piece reads one piece of f. A directory that turns out to be wide gets the widest buffer for the rest, unless
// another directory has it, such as one above f or one of a thread that hangs. Each level keeps its names until
// everything below it is removed, so deep levels read little at once.
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

func (w *walker) close(f *frame) {
	f.dir.Close()
	if f.widest != nil {
		f.widest = nil
		w.b.widest.Unlock()
	}
}
