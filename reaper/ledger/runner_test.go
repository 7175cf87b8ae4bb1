package ledger

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRunner checks that a read-only store returns the PID of the holder of the run lock and leaves no trace.
func TestRunner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var last Runner
	runner := func() int {
		t.Helper()
		s, err := OpenReadOnly(dir, Options{})
		testkit.Must(t, err)
		defer func() { testkit.Must(t, s.Close()) }()
		last, err = s.Runner()
		testkit.Must(t, err)
		return last.PID
	}
	if pid := runner(); pid != 0 {
		t.Errorf("PID %d without a directory", pid)
	}
	s, err := Open(dir, Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, s.Close()) }()
	if pid := runner(); pid != 0 {
		t.Errorf("PID %d before the first run", pid)
	}
	release, err := s.LockRun(Runner{Command: "run", Settings: map[string]string{"mode": "observe", "hold": "10m"}})
	testkit.Must(t, err)
	before, err := os.Stat(filepath.Join(dir, runLock))
	testkit.Must(t, err)
	if pid := runner(); pid != os.Getpid() || last.Command != "run" || last.Settings["hold"] != "10m" {
		t.Errorf("%+v while this process holds the lock", last)
	}
	after, err := os.Stat(filepath.Join(dir, runLock))
	testkit.Must(t, err)
	if !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Error("Runner changed the lock file")
	}
	testkit.Must(t, s.Publish(Runner{Command: "run", Settings: map[string]string{"hold": "1m"}})) // shorter than before
	if pid := runner(); pid != os.Getpid() || len(last.Settings) != 1 || last.Settings["hold"] != "1m" {
		t.Errorf("%+v after a reload", last)
	}
	if _, err := s.LockRun(Runner{Command: "sweep"}); err == nil || runner() != os.Getpid() || last.Command != "run" {
		t.Errorf("%v; %+v after another process has tried the lock", err, last)
	}
	release()
	if pid := runner(); pid != 0 {
		t.Errorf("PID %d after the release", pid)
	}
	// A killed process leaves its PID in the file.
	testkit.Must(t, os.WriteFile(filepath.Join(dir, runLock), []byte("1\n"), 0o600))
	if pid := runner(); pid != 0 {
		t.Errorf("PID %d after a kill", pid)
	}
}

// TestHolds checks that a line of /proc/locks is parsed by its columns.
func TestHolds(t *testing.T) {
	table := []byte("1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF\n2: POSIX  ADVISORY  WRITE 4711 fe:00:99 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 12 fe:00:34 0 EOF\n\n")
	for _, c := range []struct {
		pid  int
		ino  uint64
		want bool
	}{{4711, 1234, true}, {4711, 34, false}, {12, 34, true}, {4711, 99, false}, {1, 1234, false}} {
		if got := holds(table, c.pid, c.ino); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
