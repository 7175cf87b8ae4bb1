package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// reserveFile is space for the day when the disk has not one block left: what lies in the pods directory is often what filled it, and
// nothing may go before its intent is written. Usually the pods directory is on the same disk, so that the manifest in quarantine finds
// room as well.
const (
	reserveFile = "reserve"
	reserveSize = 2 << 20
	// reserveSlice is what one batch of intents gets, and the record of how it ended. It is given up when that is written: earlier, others
	// who write to the disk would take it. There are several: a pod that was moved gives nothing back before it is removed, which is
	// another intent.
	reserveSlice = 256 << 10
	// reserveRoom is how much must be free before the reserve is made: it takes nothing from a disk that is nearly full.
	reserveRoom = 16 << 20
)

// needed reports whether what may be done depends on the record, and not only what people know: how an intent ended among them.
func needed(r policy.Record) bool {
	return r.Kind.Means().Phase != policy.PhaseNone || slices.Contains(neededKinds, r.Kind)
}

// neededKinds are those that no entry of the quarantine follows from.
var neededKinds = []policy.Kind{
	policy.KindBreaker, policy.KindResumed, policy.KindForgotten, policy.KindRemovedSandbox, policy.KindKeptSandbox, policy.KindFailed,
	policy.KindCNIRestored,
}

// fullDisk reports whether there was no space for a write, or the owner may have no more of it.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// beforeIntents are the values that must be saved before anything may be moved.
var beforeIntents = map[string]bool{"home": true}

// spending writes, and as long as the disk is full gives up one slice of the reserve after the other and writes again. The caller holds
// the append lock.
func (s *Store) spending(write func() error) error {
	err := write()
	for fullDisk(err) && !s.lacksInode(err) && s.giveSlice() {
		err = write()
	}
	return err
}

// lacksInode reports whether a file could not be made since the disk has no inode left: no block helps.
func (s *Store) lacksInode(err error) bool {
	room, statErr := s.room()
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Op == "openat" && statErr == nil && room.NoInode
}

// makeRoom gives up one slice where the disk has not as much left. It tries, since a disk does not say: ext4 counts blocks as free that it
// gives nobody, and a quota is in no figure. The caller holds the append lock.
func (s *Store) makeRoom() {
	if info, err := s.root.Lstat(reserveFile); err == nil && fullDisk(s.resizeReserve(info.Size(), info.Size()+reserveSlice, info.Size())) {
		s.giveSlice()
	}
}

// giveSlice is false where there is none: the write that follows says that the disk is full.
func (s *Store) giveSlice() bool {
	info, err := s.root.Lstat(reserveFile)
	if err != nil {
		return false
	}
	left := max(0, info.Size()-reserveSlice)
	if err := s.resizeReserve(info.Size(), 0, left); err != nil {
		return false
	}
	s.log.Warn("the disk is full: a part of the reserve was given up, so that what is about to be done can be written down",
		slog.String("path", filepath.Join(s.dir, reserveFile)), slog.Int64("bytes_left", left))
	return true
}

// keepReserve makes the reserve, makes it whole again where it has become smaller, and allocates what a copy has left out, where the disk
// has room. The caller holds the append lock.
func (s *Store) keepReserve() {
	var was int64
	if info, err := s.root.Lstat(reserveFile); err == nil {
		was = info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok && was >= reserveSize && st.Blocks*512 >= reserveSize {
			return
		}
	}
	err := s.roomy()
	if err == nil {
		err = s.resizeReserve(was, reserveSize, reserveSize)
	}
	if err != nil {
		// Nothing is lost: on a full disk nothing goes, and is told, as without a reserve.
		s.log.Debug("cannot reserve space for a full disk", errAttr(err))
	}
}

// resizeReserve allocates so many bytes from the reserve's beginning and then gives it its size; where they are not to be had, the size
// that it was. It removes what has no bytes left.
func (s *Store) resizeReserve(was, allocated, size int64) error {
	f, err := s.openRegular(reserveFile, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	// Slice by slice: btrfs frees no part of what was allocated at once. And no zeros are written: of those a file system that compresses
	// keeps nothing.
	for at := int64(0); at < allocated && err == nil; at += reserveSlice {
		err = unix.EINTR
		for errors.Is(err, unix.EINTR) {
			err = f.Allocate(at, reserveSlice)
		}
	}
	if err != nil {
		size = was
	}
	err = errors.Join(err, f.Truncate(size), f.Close())
	if size == 0 {
		err = errors.Join(err, s.root.Remove(reserveFile))
	}
	return err
}

// roomy says why the disk has no room for a reserve: what only root may use, and what the file system keeps for itself, counts as taken.
func (s *Store) roomy() error {
	room, err := s.room()
	if err != nil {
		return err
	}
	if free := room.Bytes; free < reserveRoom {
		return fmt.Errorf("%d bytes are free, less than %d", free, reserveRoom)
	}
	return nil
}

func (s *Store) room() (Room, error) {
	dir, err := s.root.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return Room{}, err
	}
	room, err := dir.Room()
	return room, errors.Join(err, dir.Close())
}
