package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestLogFiles checks that with "auto" the log of RKE2's kubelet, which never writes to the journal, is followed, and
// only existing logs. A file that is the kubelet's standard error is followed once, beside the journal.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	here, nowhere := filepath.Join(dir, "agent", "logs", "kubelet.log"), filepath.Join(dir, "none", "logs", "kubelet.log")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "agent"), 0o700))
	own := []string{"/var/log/kubelet.log", "/var/log/kubelet.log"}
	usual := []string{"/var/log/messages", "/var/log/syslog"}
	for _, c := range []struct {
		name     string
		sources  []string
		files    []string
		journald bool
		rke2     string
		own      []string
		want     []string
	}{
		{"a kubelet in the journal", []string{"auto"}, usual, true, nowhere, nil, nil},
		{"RKE2 with a journal", []string{"auto"}, usual, true, here, nil, []string{here}},
		{"RKE2 without", []string{"auto"}, usual, false, here, nil, append(slices.Clone(usual), here)},
		{"no journal", []string{"auto"}, usual, false, nowhere, nil, usual},
		{"named once", []string{"auto"}, []string{here}, false, here, nil, []string{here}},
		{"the journal only", []string{"journald"}, usual, true, here, nil, nil},
		{"its own, with a journal", []string{"auto"}, usual, true, nowhere, own, own[:1]},
		{"its own, without", []string{"auto"}, usual, false, nowhere, own, append(slices.Clone(usual), own[0])},
		{"files only", []string{"file"}, usual, true, here, nil, usual},
	} {
		if got := LogFiles(c.sources, c.files, c.journald, c.rke2, c.own...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestJournalKept: with Storage=none journald has a socket and a journalctl, and no files.
func TestJournalKept(t *testing.T) {
	none, empty, kept := filepath.Join(t.TempDir(), "none"), t.TempDir(), t.TempDir()
	machine := filepath.Join(kept, "0123456789abcdef0123456789abcdef")
	for _, dir := range []string{filepath.Join(empty, "0123456789abcdef0123456789abcdef"), machine} {
		testkit.Must(t, os.MkdirAll(dir, 0o700))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(machine, "system.journal"), nil, 0o600))
	for _, c := range []struct {
		dirs []string
		want bool
	}{{[]string{none, empty}, false}, {[]string{none, kept}, true}, {nil, false}} {
		if got := JournalKept(c.dirs...); got != c.want {
			t.Errorf("%v: %t", c.dirs, got)
		}
	}
}

// TestWrittenAfterJournal checks that the default log files are read if they are newer than the journal: their lines
// are only there. A file as old as the journal has the same lines.
func TestWrittenAfterJournal(t *testing.T) {
	dir := t.TempDir()
	machine := filepath.Join(dir, "journal", "0123456789abcdef0123456789abcdef")
	testkit.Must(t, os.MkdirAll(machine, 0o700))
	now := time.Unix(1_700_000_000, 0)
	write := func(path string, at time.Time) {
		testkit.Must(t, os.WriteFile(path, nil, 0o600))
		testkit.Must(t, os.Chtimes(path, at, at))
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

// TestJournalClosed checks that an unreadable system journal is reported, although another journal may be readable.
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
		t.Errorf("unreadable: %q", got)
	}
	testkit.Must(t, os.Chmod(dir, 0))
	if got := JournalClosed(dir); got != dir {
		t.Errorf("unreadable directory: %q", got)
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
}
