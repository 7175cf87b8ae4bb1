package audit

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// TestTextfile: the file is there with mode 0644 despite the umask, after each status, with no other beside it, and gone
// after an ordinary stop.
func TestTextfile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		m := busy()
		f := NewTextfile(Auto, m.Registry(), slog.New(slog.DiscardHandler))
		f.dirs = []string{filepath.Join(dir, "absent"), dir}
		m.Changed = f.Changed
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.Run(ctx) })
		for _, hidden := range []string{"3", "4"} {
			m.Status(reaper.Status{Hidden: int(hidden[0] - '0')}, 0)
			synctest.Wait()
			text, err := os.ReadFile(filepath.Join(dir, fileName))
			if err != nil || !bytes.Contains(text, []byte("orphan_reaper_pods{state=\"hidden\"} "+hidden+"\n")) {
				t.Errorf("%v\n%s", err, text)
			}
		}
		st, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil || st.Mode() != 0o644 {
			t.Errorf("%v %v", st, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%v", entries)
		}
		cancel()
		wg.Wait()
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("after the stop: %v", entries)
		}
	})
}

// TestTextfileHangs: a file system that hangs stops neither the loop nor the end of the program, and is logged once. When
// it answers again, the next change is written.
func TestTextfileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics("1")
		var log bytes.Buffer
		f := NewTextfile("/x/orphan-reaper.prom", m.Registry(), slog.New(slog.NewTextHandler(&log, nil)))
		m.Changed = f.Changed
		release, writes := make(chan struct{}), 0
		f.replace = func(string, []byte) error { writes++; <-release; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.Run(ctx) })
		for range 5 { // the loop goes on: these return with nobody to write
			m.Status(reaper.Status{}, 0)
			m.Event(judge.Event{Kind: judge.EventRemoved})
			time.Sleep(2 * fileTimeout) // of the bubble's clock
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "does not answer"); writes != 1 || n != 1 {
			t.Errorf("%d writes, %d messages\n%s", writes, n, log.String())
		}
		close(release)
		synctest.Wait()
		m.Status(reaper.Status{}, 0)
		synctest.Wait()
		if writes != 2 || !strings.Contains(log.String(), "metrics are written") {
			t.Errorf("%d writes\n%s", writes, log.String())
		}
		hang := make(chan struct{})
		f.replace = func(string, []byte) error { <-hang; return nil }
		m.Status(reaper.Status{}, 0)
		synctest.Wait()
		cancel()
		wg.Wait() // the program ends while a write hangs
		close(hang)
	})
}

// TestTextfileStopsDuringAWrite: a write that is under way at the stop does not leave its file behind.
func TestTextfileStopsDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := NewTextfile(filepath.Join(dir, fileName), NewMetrics("1").Registry(), slog.New(slog.DiscardHandler))
		release := make(chan struct{})
		f.replace = func(path string, text []byte) error { <-release; return replace(path, text) }
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.Run(ctx) })
		f.Changed()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		synctest.Wait() // also for a write that was abandoned
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("after the stop: %v", entries)
		}
	})
}

// TestTextfileOnAFullDisk: the old file stays whole, nothing lies beside it, and the error is returned.
func TestTextfileOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	if err := replace(path, []byte("old\n")); err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 1<<20)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: was.Max}); err != nil { // write(2): EFBIG; a full disk: ENOSPC
		t.Fatal(err)
	}
	err := replace(path, full)
	if again := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); again != nil {
		t.Fatal(again)
	}
	if err == nil {
		t.Error("no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old\n" {
		t.Errorf("%q %v", text, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

// TestTextfileFollowsNoLink: the node exporter's user owns the directory, and must not have root write or open a file
// elsewhere.
func TestTextfileFollowsNoLink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(other, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fileName, "." + fileName + ".tmp"} {
		if err := os.Symlink(other, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := replace(filepath.Join(dir, fileName), []byte("new\n")); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(other)
	text, _ := os.ReadFile(other)
	if err != nil || st.Mode() != 0o600 || string(text) != "secret\n" {
		t.Errorf("%v %q %v", st.Mode(), text, err)
	}
	if st, err := os.Lstat(filepath.Join(dir, fileName)); err != nil || !st.Mode().IsRegular() {
		t.Errorf("%v %v", st, err)
	}
	if err := replace(filepath.Join(dir, "metrics.txt"), nil); err == nil {
		t.Error("a name that the node exporter does not read is no error")
	}
}
