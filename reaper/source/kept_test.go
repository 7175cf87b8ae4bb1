package source

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestJournalKept: with Storage=none there is a socket, a journalctl, and no file.
func TestJournalKept(t *testing.T) {
	none, empty, kept := filepath.Join(t.TempDir(), "none"), t.TempDir(), t.TempDir()
	machine := filepath.Join(kept, "0123456789abcdef0123456789abcdef")
	for _, dir := range []string{filepath.Join(empty, "0123456789abcdef0123456789abcdef"), machine} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(machine, "system.journal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dirs []string
		want bool
	}{{[]string{none, empty}, false}, {[]string{none, kept}, true}, {nil, false}} {
		if got := JournalKept(c.dirs...); got != c.want {
			t.Errorf("%v: %t", c.dirs, got)
		}
	}
}

// TestWrittenAfterJournal: where the usual files are written and the journal is not, its lines are
// nowhere else. A file that is as old as the journal has the same.
func TestWrittenAfterJournal(t *testing.T) {
	dir := t.TempDir()
	machine := filepath.Join(dir, "journal", "0123456789abcdef0123456789abcdef")
	if err := os.MkdirAll(machine, 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	write := func(path string, at time.Time) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	before, with, after := filepath.Join(dir, "old"), filepath.Join(dir, "messages"), filepath.Join(dir, "syslog")
	write(before, now.Add(-time.Hour))
	write(with, now.Add(time.Minute))
	write(after, now.Add(time.Hour))
	files, journals := []string{before, with, after, filepath.Join(dir, "none")}, []string{filepath.Join(dir, "journal")}
	if got := WrittenAfterJournal(journals, files); !slices.Equal(got, files[:3]) {
		t.Errorf("without any journal: %q", got)
	}
	write(filepath.Join(machine, "system@1.journal"), now.Add(-24*time.Hour))
	write(filepath.Join(machine, "system.journal"), now)
	if got := WrittenAfterJournal(journals, files); !slices.Equal(got, []string{after}) {
		t.Errorf("journald writes: %q", got)
	}
	write(filepath.Join(machine, "user-1000.journal"), now.Add(time.Hour))
	if got := WrittenAfterJournal(journals, files); got != nil {
		t.Errorf("journald writes for a user: %q", got)
	}
}
