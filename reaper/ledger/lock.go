package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// appendWait limits how long an append waits for another process's append, which is one write and one sync. After this
// time the disk hangs, or the process was stopped.
const appendWait = 30 * time.Second

// lockPoll is how often a lock that another process holds is tried again: flock(2) cannot wait with a limit.
const lockPoll = 20 * time.Millisecond

// LockRun acquires the lock that one daemon or sweep at a time holds. It does not wait; the error names the holder.
func (s *Store) LockRun() (release func(), err error) {
	release, err = s.tryLock(runLock, true)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("cannot run: another orphan-reaper (PID %s) uses %s", s.holder(runLock), s.dir)
	}
	return release, err
}

// Enter acquires the lock around one pass of the daemon or one command of an operator. It waits until ctx ends. Then it
// reads the new events of other processes.
func (s *Store) Enter(ctx context.Context) (leave func(), err error) {
	leave, err = s.waitLock(ctx.Done(), actLock, true)
	if err == nil {
		if err = s.Refresh(); err == nil {
			return leave, nil
		}
		leave()
	}
	if errors.Is(err, fs.ErrNotExist) { // open(2) creates no file in a removed directory
		err = fmt.Errorf("%w: %w", ErrRemoved, err)
	}
	return nil, err
}

// lockAppend acquires the lock around each change of a file of the directory. The goroutines of one process wait for a
// mutex first, so that they do not poll.
func (s *Store) lockAppend() (release func(), err error) {
	s.changing.Lock()
	expired := make(chan struct{})
	limit := time.AfterFunc(appendWait, func() { close(expired) })
	defer limit.Stop()
	unlock, err := s.waitLock(expired, appendLock, false)
	if err != nil {
		s.changing.Unlock()
		return nil, err
	}
	return func() {
		unlock()
		s.changing.Unlock()
	}, nil
}

// waitLock acquires a lock, or returns an error when end is closed.
func (s *Store) waitLock(end <-chan struct{}, name string, sign bool) (release func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		release, err = s.tryLock(name, sign)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return release, err
		}
		select {
		case <-end:
			return nil, fmt.Errorf("cannot wait any longer for %s: another orphan-reaper (PID %s) holds it: %w",
				filepath.Join(s.dir, name), s.holder(name), os.ErrDeadlineExceeded)
		case <-tick.C:
		}
	}
}

// tryLock acquires a lock or returns EWOULDBLOCK. The kernel releases the lock when its process ends, so it is never
// stale. sign writes our PID into the file, for the errors of other processes.
func (s *Store) tryLock(name string, sign bool) (release func(), err error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	f, err := s.openRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for {
		err = f.Lock()
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", f.Name(), err), f.Close())
	}
	if sign {
		// Errors are ignored, since the PID is only for display and the disk may be full.
		_ = f.Truncate(0)
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	s.locks.Store(f, true)
	return func() {
		if _, held := s.locks.LoadAndDelete(f); held {
			if sign {
				_ = f.Truncate(0)
			}
			_ = f.Close() // releases the lock: no other process has this open file description
		}
	}, nil
}

// holder returns the PID in a lock's file.
func (s *Store) holder(name string) string {
	b, err := s.root.ReadFile(name)
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}

// lockTable lists the held locks (proc_locks(5)).
const lockTable = "/proc/locks"

// Runner returns the process that holds the lock of LockRun, and since when, or 0. It does not try the lock, which could
// stop a daemon that starts at that moment. It returns 0 for a process in a PID namespace that is not visible from here.
func (s *Store) Runner() (pid int, since time.Time, err error) {
	info, err := s.root.Lstat(runLock)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, time.Time{}, nil
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("cannot read the daemon's lock: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	table, err := os.ReadFile(lockTable)
	if err != nil || !ok {
		return 0, time.Time{}, fmt.Errorf("cannot find out who holds the daemon's lock: %w", err)
	}
	signed, err := strconv.Atoi(s.holder(runLock))
	if err != nil || !holds(table, signed, st.Ino) {
		return 0, time.Time{}, nil //nolint:nilerr // the file is empty after a release
	}
	return signed, info.ModTime(), nil
}

// holds reports whether the process holds a lock of the inode, by lines like this. It does not compare the device,
// which on btrfs and overlay differs from that of stat(2).
//
//	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
func holds(table []byte, pid int, ino uint64) bool {
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line))
		if len(f) >= 6 && f[1] == "FLOCK" && f[4] == strconv.Itoa(pid) && strings.HasSuffix(f[5], ":"+strconv.FormatUint(ino, 10)) {
			return true
		}
	}
	return false
}
