package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserveFile is space that a full disk gets back, so that an intent can be written when the disk has not one block left: what lies in
// the pods directory is often what filled it. Usually that and the quarantine are on the same disk, and the rest of the space serves for
// what a move to quarantine writes.
const (
	reserveFile = "reserve"
	reserveSize = 1 << 20
	// reserveRoom is how much must be free before the reserve is made: it takes no space from a disk that is nearly full.
	reserveRoom = 8 * reserveSize
)

// fullDisk reports whether there was no space for a write, or the owner may have no more of it.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// spending does a write of the directory. Where the disk is full, it does it once more with the space of the reserve.
func (s *Store) spending(write func() error) error {
	err := write()
	if !fullDisk(err) || s.root.Remove(reserveFile) != nil {
		return err
	}
	s.log.Warn("the disk is full: its reserve was given up, so that records can be written and dead pods removed",
		slog.String("path", filepath.Join(s.dir, reserveFile)))
	return write()
}

// keepReserve makes the reserve where it is missing and the disk has room. The caller holds the append lock.
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
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	var disk unix.Statfs_t
	if err = errors.Join(unix.Fstatfs(int(dir.Fd()), &disk), dir.Close()); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < reserveRoom {
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
