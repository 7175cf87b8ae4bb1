package source

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// patience limits every wait. The tests set the timer to an hour, so only events can deliver a line.
const patience = 2 * time.Minute

// orphan returns a kubelet's line about its n-th orphan.
func orphan(n int) string {
	return fmt.Sprintf(`E0331 15:47:45.%06d    3416 kubelet_volumes.go:245] Orphaned pod "%08x-0000-4000-8000-000000000000" found, but volume paths are still present on disk`, n, n)
}

const junk = "I0331 15:47:45.892216    3416 kubelet.go:1] SyncLoop (housekeeping), nothing to see in this line\n"

// follower runs a source and collects its lines.
type follower struct {
	t      *testing.T
	src    Source
	cancel context.CancelFunc
	done   chan error
	lines  chan parsers.Line
	// received is closed once got has all lines that Run has sent.
	received chan struct{}

	mu      sync.Mutex
	got     []parsers.Line
	changed chan struct{}
	hold    chan struct{} // receiving starts when it is closed
}

// start runs src until stop or the test's end.
func start(t *testing.T, src Source, from Position) *follower {
	t.Helper()
	return startHeld(t, src, from, closedChan())
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// startHeld starts src and receives nothing until hold is closed.
func startHeld(t *testing.T, src Source, from Position, hold chan struct{}) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{
		t: t, src: src, cancel: cancel, done: make(chan error, 1), lines: make(chan parsers.Line),
		changed: make(chan struct{}, 1), hold: hold, received: make(chan struct{}),
	}
	go func() { f.done <- src.Run(ctx, from, f.lines); close(f.lines) }()
	go func() {
		defer close(f.received)
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
		for l := range f.lines {
			f.mu.Lock()
			f.got = append(f.got, l)
			f.mu.Unlock()
			select {
			case f.changed <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-f.received })
	return f
}

// stop ends the source and returns its position.
func (f *follower) stop() Position {
	f.t.Helper()
	f.cancel()
	select {
	case err := <-f.done:
		if err != nil {
			f.t.Fatalf("Run: %v", err)
		}
	case <-time.After(patience):
		f.t.Fatal("Run does not end with its context")
	}
	<-f.received // The last line that Run sent may not be in got yet.
	return f.src.Position()
}

func (f *follower) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, l := range f.got {
		all = append(all, string(l.Text))
	}
	return all
}

// until waits for a condition on all received lines.
func (f *follower) until(what string, ok func(texts []string) bool) {
	f.t.Helper()
	if !f.waitFor(ok) {
		texts := f.texts()
		f.t.Fatalf("not received within %v: %s; got %d lines, the last:\n%s", patience, what, len(texts), strings.Join(texts[max(0, len(texts)-5):], "\n"))
	}
}

// waitFor waits for a condition and reports whether it became true.
func (f *follower) waitFor(ok func(texts []string) bool) bool {
	timeout := time.After(patience)
	for !ok(f.texts()) {
		select {
		case <-f.changed:
		case <-timeout:
			return false
		}
	}
	return true
}

// sees waits until all these orphans have arrived, and fails if one arrived twice.
func (f *follower) sees(ns ...int) {
	f.t.Helper()
	for _, n := range ns {
		f.until(fmt.Sprintf("orphan %d", n), func(texts []string) bool { return count(texts, orphan(n)) > 0 })
	}
	for _, n := range ns {
		if c := count(f.texts(), orphan(n)); c != 1 {
			f.t.Errorf("orphan %d arrived %d times", n, c)
		}
	}
}

func (f *follower) seesNot(ns ...int) {
	f.t.Helper()
	for _, n := range ns {
		if count(f.texts(), orphan(n)) != 0 {
			f.t.Errorf("orphan %d arrived again", n)
		}
	}
}

func count(texts []string, text string) int {
	n := 0
	for _, t := range texts {
		if t == text {
			n++
		}
	}
	return n
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newFile(path string) *File {
	f := NewFile(path, time.Now, quiet())
	f.interval = time.Hour
	return f
}

// writer appends to one open file, like a logger.
type writer struct {
	t *testing.T
	*os.File
}

func open(t *testing.T, path string) *writer {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return &writer{t, f}
}

func (w *writer) raw(s string) {
	w.t.Helper()
	if _, err := w.WriteString(s); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) orphans(ns ...int) {
	w.t.Helper()
	for _, n := range ns {
		w.raw(junk + orphan(n) + "\n")
	}
}

func logPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "messages")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	testkit.Must(t, os.Rename(from, to))
}

func remove(t *testing.T, path string) {
	t.Helper()
	testkit.Must(t, os.RemoveAll(path))
}

// copyTruncate does what logrotate's copytruncate does.
func copyTruncate(t *testing.T, path, to string) {
	t.Helper()
	b, err := os.ReadFile(path)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(to, b, 0o600))
	testkit.Must(t, os.Truncate(path, 0))
}
