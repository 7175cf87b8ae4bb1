package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

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
}

// fullDisk reports whether there was no space for a write, or the owner may have no more of it.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// beforeIntents are the values that must be saved before anything may be moved.
var beforeIntents = map[string]bool{"home": true}

// spendReserve gives one slice of the reserve up where the disk has less than that left. The caller holds the append lock.
func (s *Store) spendReserve() {
	if free, err := s.free(); err == nil && free < reserveSlice {
		s.giveSlice()
	}
}

// giveSlice is false where there is none: the write that follows says that the disk is full.
func (s *Store) giveSlice() bool {
	left, err := s.shrinkReserve()
	if err != nil {
		return false
	}
	s.log.Warn("the disk is full: a part of the reserve was given up, so that what is about to be done can be written down",
		slog.String("path", filepath.Join(s.dir, reserveFile)), slog.Int64("bytes_left", left))
	return true
}

func (s *Store) shrinkReserve() (left int64, err error) {
	info, err := s.root.Lstat(reserveFile)
	if err != nil {
		return 0, err
	}
	left = max(0, info.Size()-reserveSlice)
	if left == 0 {
		return 0, s.root.Remove(reserveFile)
	}
	f, err := s.openRegular(reserveFile, os.O_WRONLY)
	if err != nil {
		return 0, err
	}
	return left, errors.Join(f.Truncate(left), f.Close())
}

// keepReserve makes the reserve whole again where the disk has room. The caller holds the append lock.
func (s *Store) keepReserve() {
	if info, err := s.root.Lstat(reserveFile); err == nil && info.Size() >= reserveSize {
		return
	}
	if err := s.makeReserve(); err != nil {
		// Nothing is lost: on a full disk nothing goes, and is told, as without a reserve.
		s.log.Debug("cannot reserve space for a full disk", errAttr(err))
	}
}

func (s *Store) makeReserve() error {
	free, err := s.free()
	if err != nil {
		return err
	}
	if free < reserveRoom {
		return fmt.Errorf("%d bytes are free, less than %d", free, reserveRoom)
	}
	f, err := s.openRegular(reserveFile, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	// No zeros are written: of those a file system that compresses keeps nothing.
	if err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, reserveSize), f.Close()); err != nil {
		return errors.Join(err, s.root.Remove(reserveFile))
	}
	return nil
}

// free is what the disk has left for this process, in bytes: root may have what file systems keep from others.
func (s *Store) free() (uint64, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return 0, err
	}
	var disk unix.Statfs_t
	err = errors.Join(unix.Fstatfs(int(dir.Fd()), &disk), dir.Close())
	if os.Geteuid() == 0 {
		return disk.Bfree * uint64(disk.Bsize), err
	}
	return disk.Bavail * uint64(disk.Bsize), err
}
