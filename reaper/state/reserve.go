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

// reserveFile is space for a disk without any free block: pods often fill it, and no pod may be removed before its intent is
// written.
const (
	reserveFile = "reserve"
	reserveSize = 2 << 20
	// reserveSlice is the part for one batch of intents and their outcomes. It is given up when these are written: earlier,
	// other writers would use it. There are several: a pod that was moved frees nothing before it is removed.
	reserveSlice = 256 << 10
	// reserveRoom must be free before the reserve is made, so that it never fills a disk that is nearly full.
	reserveRoom = 16 << 20
)

// needed reports whether later actions depend on the record, as on how an intent ended.
func needed(r policy.Record) bool {
	return r.Kind.Means().Phase != policy.PhaseNone || slices.Contains(neededKinds, r.Kind)
}

// neededKinds are the needed kinds that change no entry of the quarantine.
var neededKinds = []policy.Kind{
	policy.KindBreaker, policy.KindResumed, policy.KindForgotten, policy.KindRemovedSandbox, policy.KindKeptSandbox, policy.KindFailed,
	policy.KindCNIRestored, policy.KindUnmounting, policy.KindUnmounted, policy.KindNotUnmounted,
}

// fullDisk reports whether there was no space for a write, or the owner may have no more of it.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// beforeIntents are the values that must be saved before anything may be moved.
var beforeIntents = map[string]bool{"home": true}

// spending writes, and as long as the disk is full gives up one slice of the reserve and writes again. The caller holds the
// append lock.
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

// makeRoom gives up one slice if the disk does not have as much left. It tries to allocate, since no figure is reliable: ext4
// counts blocks as free that no process can get. The caller holds the append lock.
func (s *Store) makeRoom() {
	if info, err := s.root.Lstat(reserveFile); err == nil && fullDisk(s.resizeReserve(info.Size(), info.Size()+reserveSlice, info.Size())) {
		s.giveSlice()
	}
}

// giveSlice returns false where there is none: the write that follows then fails.
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
		// Nothing is lost: on a full disk nothing is removed, and that is logged, as without a reserve.
		s.log.Debug("cannot reserve space for a full disk", errAttr(err))
	}
}

// resizeReserve allocates so many bytes from the reserve's beginning and then sets its size, or keeps it if there is no room.
// It removes an empty file.
func (s *Store) resizeReserve(was, allocated, size int64) error {
	f, err := s.openRegular(reserveFile, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	// Slice by slice: btrfs frees no part of what was allocated at once. No zeros are written: a file system that
	// compresses keeps nothing of them.
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

// roomy returns an error where the disk has no room for a reserve. Blocks for root and for the file system itself count as used.
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
