package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockTable is where the kernel lists the locks that are held (proc_locks(5)).
const lockTable = "/proc/locks"

// Runner returns the process that holds the lock of LockRun, and since when; 0 where none does. It
// only reads: to try the lock would keep a daemon from it that starts just then. A process in a PID
// namespace that is not seen from here counts as none.
func (s *Store) Runner() (pid int, since time.Time, err error) {
	if s.root == nil {
		return 0, time.Time{}, nil
	}
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
		return 0, time.Time{}, nil //nolint:nilerr // who has let go leaves the file empty
	}
	return signed, info.ModTime(), nil
}

// holds reports whether the process holds a lock of the inode. The device is left out: btrfs and
// overlay show another one here than stat(2) does, and the PID is the one that signed the file.
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
