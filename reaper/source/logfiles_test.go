package source

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLogFiles: with auto, RKE2's kubelet is heard, which the journal never hears, and
// nothing is followed that nobody has.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	here, nowhere := filepath.Join(dir, "agent", "logs", "kubelet.log"), filepath.Join(dir, "none", "logs", "kubelet.log")
	if err := os.Mkdir(filepath.Join(dir, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	usual := []string{"/var/log/messages", "/var/log/syslog"}
	for _, c := range []struct {
		name     string
		sources  []string
		files    []string
		journald bool
		rke2     string
		want     []string
	}{
		{"a kubelet in the journal", []string{"auto"}, usual, true, nowhere, nil},
		{"RKE2 with a journal", []string{"auto"}, usual, true, here, []string{here}},
		{"RKE2 without", []string{"auto"}, usual, false, here, append(slices.Clone(usual), here)},
		{"no journal", []string{"auto"}, usual, false, nowhere, usual},
		{"named once", []string{"auto"}, []string{here}, false, here, []string{here}},
		{"the journal only", []string{"journald"}, usual, true, here, nil},
		{"files only", []string{"file"}, usual, true, here, usual},
	} {
		if got := LogFiles(c.sources, c.files, c.journald, c.rke2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOwnLog: the file that is the kubelet's standard error is followed once, beside the journal.
func TestOwnLog(t *testing.T) {
	for _, c := range []struct {
		journald bool
		want     []string
	}{{true, []string{"/var/log/kubelet.log"}}, {false, []string{"/var/log/messages", "/var/log/kubelet.log"}}} {
		got := LogFiles([]string{"auto"}, []string{"/var/log/messages"}, c.journald, "/none/logs/kubelet.log", "/var/log/kubelet.log", "/var/log/kubelet.log")
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// TestUnits: one that was found stays, and is none of the usual ones.
func TestUnits(t *testing.T) {
	found := []string{"k3s-shop.service", "kubelet.service"}
	u := NewUnits(func(context.Context) []string { return found }, quiet())
	for range 2 {
		if got := u.Find(t.Context()); !slices.Equal(got, []string{"k3s-shop.service"}) {
			t.Errorf("found %q", got)
		}
		found = nil
	}
	if !u.RunsKubelet("k3s-shop.service") || u.RunsKubelet("kubelet.service") {
		t.Error("not the unit that was found")
	}
	if got := NewUnits(nil, quiet()).Find(t.Context()); got != nil {
		t.Errorf("nothing finds %q", got)
	}
}
