package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// reserveFile reserves space for events on a full disk: pods often fill the disk, and no pod may be removed before its
// intent is written.
const (
	reserveFile = "reserve"
	reserveSize = 2 << 20
	// reserveSlice is the part for one batch of intents and their results. It is released only when these are written,
	// since other processes would use the space. There are several slices, since moving a pod frees no space.
	reserveSlice = 256 << 10
	// reserveRoom must be free before the reserve is created, so that it never fills the disk.
	reserveRoom = 16 << 20
)

// needed reports whether later actions depend on the event: all but those that only tell an operator something.
func needed(e judge.Event) bool {
	return e.Kind != judge.EventKept && e.Kind != judge.EventStarted && e.Kind != judge.EventStopped
}

// fullDisk reports whether the disk or the owner's quota is full.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// spending calls write. While the disk is full it releases one slice of the reserve and calls it again. The caller
// holds the append lock.
func (s *Store) spending(write func() error) error {
	err := write()
	for fullDisk(err) && !s.lacksInode(err) && s.releaseSlice() {
		err = write()
	}
	return err
}

// lacksInode reports whether a file could not be created because the disk has no free inode: free blocks do not help.
func (s *Store) lacksInode(err error) bool {
	room, statErr := s.room()
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Op == "openat" && statErr == nil && room.NoInode
}

// makeRoom releases one slice if the disk has less free space. It tries to allocate, since free space cannot be computed:
// ext4 counts blocks as free that no process can get. The caller holds the append lock.
func (s *Store) makeRoom() {
	if info, err := s.root.Lstat(reserveFile); err == nil && fullDisk(s.resizeReserve(info.Size(), info.Size()+reserveSlice, info.Size())) {
		s.releaseSlice()
	}
}

// releaseSlice truncates the reserve by one slice, and returns false if there is none.
func (s *Store) releaseSlice() bool {
	info, err := s.root.Lstat(reserveFile)
	if err != nil {
		return false
	}
	left := max(0, info.Size()-reserveSlice)
	if err := s.resizeReserve(info.Size(), 0, left); err != nil {
		return false
	}
	s.log.Warn("the disk is full: a part of the reserve was released for the next events of the ledger",
		slog.String("path", filepath.Join(s.dir, reserveFile)), slog.Int64("bytes_left", left))
	return true
}

// keepReserve creates the reserve, restores its size, and allocates the holes of a copy, if the disk has room.
// The caller holds the append lock.
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
		// Without a reserve nothing is removed on a full disk, and that is logged then.
		s.log.Debug("cannot reserve space for a full disk", errAttr(err))
	}
}

// resizeReserve allocates the first allocated bytes of the reserve and then sets its size. If there is no room, the size
// stays was. It removes an empty file.
func (s *Store) resizeReserve(was, allocated, size int64) error {
	f, err := s.openRegular(reserveFile, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	// Allocate slice by slice, since btrfs frees no part of one allocation. Zeros would reserve nothing on a file system
	// that compresses.
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

// roomy returns an error if the disk has no room for a reserve. Blocks for root and for the file system count as used.
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
