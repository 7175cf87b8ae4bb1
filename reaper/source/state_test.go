package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestStates: of each log is told whether it was read to its end, and what is in the way.
func TestStates(t *testing.T) {
	dir := t.TempDir()
	good, none, odd := filepath.Join(dir, "messages"), filepath.Join(dir, "syslog"), filepath.Join(dir, "directory")
	testkit.Must(t, os.WriteFile(good, []byte(orphan(1)+"\n"), 0o600))
	testkit.Must(t, os.Mkdir(odd, 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	var all []Source
	for _, path := range []string{good, none, odd} {
		all = append(all, NewFile(FileOptions{Path: path, Logger: quiet()}))
	}
	all = append(all, NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Journalctl: Journalctl{Program: filepath.Join(dir, "no-journalctl")}}))
	f := Follow(ctx, all, nil, quiet(), func(string, bool, time.Time) {})
	defer f.Wait()
	defer cancel()
	if l := <-f.Lines(); string(l.Text) != orphan(1) {
		t.Fatalf("%q", l.Text)
	}
	settled := func(s map[string]State) bool {
		return s[good].Reached && errors.Is(s[none].Err, fs.ErrNotExist) && errors.Is(s[odd].Err, errNotRegular) && s["journald"].Err != nil
	}
	for end := time.Now().Add(10 * time.Second); !settled(f.States()) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	s := f.States()
	if len(s) != 4 || !settled(s) || s[good].Err != nil || s[none].Reached || s[odd].Reached || s["journald"].Reached {
		t.Errorf("%+v", s)
	}
}

// TestJournalClosed: the system's journal that this process may not read is found, though another may be.
func TestJournalClosed(t *testing.T) {
	dir := t.TempDir()
	id := filepath.Join(dir, strings.Repeat("0", 32))
	testkit.Must(t, os.Mkdir(id, 0o755))
	if got := JournalClosed(dir, "/nowhere"); got != "" {
		t.Errorf("no journal: %s", got)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(id, "user-1000.journal"), nil, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(id, "system.journal"), nil, 0o600))
	if got := JournalClosed(dir); got != "" {
		t.Errorf("readable: %s", got)
	}
	if os.Geteuid() == 0 {
		return // root may read everything
	}
	testkit.Must(t, os.Chmod(filepath.Join(id, "system.journal"), 0))
	if got := JournalClosed(dir); got != filepath.Join(id, "system.journal") {
		t.Errorf("closed: %q", got)
	}
	testkit.Must(t, os.Chmod(dir, 0))
	if got := JournalClosed(dir); got != dir {
		t.Errorf("closed directory: %q", got)
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
}
