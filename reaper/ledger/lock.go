package ledger

import (
	"bytes"
	"context"
	"encoding/json"
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

// Runner is the process that holds the lock of LockRun, as it wrote that into the lock's file.
type Runner struct {
	PID     int    `json:"-"`
	Command string `json:"command"` // run for the daemon, sweep for a sweep
	// Settings are what a command beside it uses, too: they may come from flags that the command does not have.
	Settings map[string]string `json:"settings,omitempty"`
}

// LockRun acquires the lock that one daemon or sweep at a time holds, and writes who holds it. It does not wait; the error
// names the holder.
func (s *Store) LockRun(r Runner) (release func(), err error) {
	release, err = s.tryLock(runLock, r.text())
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("cannot run: another orphan-reaper (PID %s) uses %s", s.holder(runLock), s.dir)
	}
	return release, err
}

// Publish writes other settings of the holder of LockRun, this process.
func (s *Store) Publish(r Runner) error {
	f, err := s.openRegular(runLock, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(sign(f, r.text()), f.Close()) // flock(2): the lock is that of another open file description
}

// text is the content of the lock's file: a line with the PID, and one with the rest.
func (r Runner) text() string {
	rest, _ := json.Marshal(r) // strings always encode
	return pidLine() + string(rest) + "\n"
}

func pidLine() string { return strconv.Itoa(os.Getpid()) + "\n" }

// sign writes the content of a lock's file. A reader meanwhile finds the old content or the new one.
func sign(f File, text string) error {
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("cannot write %s: %w", f.Name(), err)
	}
	return f.Truncate(int64(len(text)))
}

// Enter acquires the lock around one pass of the daemon or one command of an operator. It waits until ctx ends. Then it
// reads the new events of other processes.
func (s *Store) Enter(ctx context.Context) (leave func(), err error) {
	leave, err = s.waitLock(ctx.Done(), actLock, pidLine())
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
	unlock, err := s.waitLock(expired, appendLock, "")
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
func (s *Store) waitLock(end <-chan struct{}, name, text string) (release func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		release, err = s.tryLock(name, text)
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
// stale. text is written into the file, for other processes, and removed by release; "" writes nothing.
func (s *Store) tryLock(name, text string) (release func(), err error) {
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
	if text != "" {
		_ = sign(f, text) // it is only for display, and the disk may be full
	}
	s.locks.Store(f, true)
	return func() {
		if _, held := s.locks.LoadAndDelete(f); held {
			if text != "" {
				_ = f.Truncate(0)
			}
			_ = f.Close() // releases the lock: no other process has this open file description
		}
	}, nil
}

// holder returns the PID in a lock's file.
func (s *Store) holder(name string) string {
	if pid, _ := s.signed(name); pid != "" {
		return pid
	}
	return "unknown"
}

// signed returns the PID in a lock's file, and what follows it.
func (s *Store) signed(name string) (pid, rest string) {
	b, err := s.root.ReadFile(name)
	if err != nil {
		return "", ""
	}
	pid, rest, _ = strings.Cut(string(b), "\n")
	return pid, rest
}

// lockTable lists the held locks (proc_locks(5)).
const lockTable = "/proc/locks"

// Runner returns the process that holds the lock of LockRun, or the zero value. It does not try the lock, which could
// stop a daemon that starts at that moment. It returns the zero value for a process in a PID namespace that is not visible
// from here.
func (s *Store) Runner() (Runner, error) {
	info, err := s.root.Lstat(runLock)
	if errors.Is(err, fs.ErrNotExist) {
		return Runner{}, nil
	}
	if err != nil {
		return Runner{}, fmt.Errorf("cannot read the daemon's lock: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	table, err := os.ReadFile(lockTable)
	if err != nil || !ok {
		return Runner{}, fmt.Errorf("cannot find out who holds the daemon's lock: %w", err)
	}
	pid, rest := s.signed(runLock)
	var r Runner
	r.PID, err = strconv.Atoi(pid)
	if err != nil || !holds(table, r.PID, st.Ino) {
		return Runner{}, nil //nolint:nilerr // the file is empty after a release
	}
	_ = json.NewDecoder(strings.NewReader(rest)).Decode(&r) // a longer one may follow; without it the PID is all that is known
	return r, nil
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
