package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
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
		{"a kubelet in the journal", []string{auto}, usual, true, nowhere, nil},
		{"RKE2 with a journal", []string{auto}, usual, true, here, []string{here}},
		{"RKE2 without", []string{auto}, usual, false, here, append(slices.Clone(usual), here)},
		{"no journal", []string{auto}, usual, false, nowhere, usual},
		{"named once", []string{auto}, []string{here}, false, here, []string{here}},
		{"the journal only", []string{"journald"}, usual, true, here, nil},
		{"files only", []string{"file"}, usual, true, here, usual},
	} {
		if got := logFiles(Config{LogSources: c.sources, LogFiles: c.files}, c.journald, c.rke2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// hung is a source that does not end with its context, as one whose read hangs.
type hung struct {
	source.Source
	release chan struct{}
}

func (hung) Name() string { return "hung" }

func (h hung) Run(context.Context, source.Position, chan<- parsers.Line) error {
	<-h.release
	return nil
}

// TestHungLog: a log whose read hangs holds up neither the end of a command nor the daemon's.
func TestHungLog(t *testing.T) {
	h := hung{release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, []source.Source{h}, nil, slog.New(slog.DiscardHandler), func(string, bool, time.Time) {})
	cancel()
	f.wait() // hangs without the bound
	close(h.release)
	f.wait()
}
