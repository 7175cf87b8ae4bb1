package source

import (
	"os"
	"path/filepath"
	"testing"
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
