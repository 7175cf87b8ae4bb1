package source

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestFileLongLinesAndJunk(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	long := strings.Repeat("x", 3*(256<<10))
	w.raw(long + orphan(1) + "\n")                         // The report is after the kept part.
	w.raw(orphan(2) + long + "\n")                         // The report is kept, the rest is not.
	w.raw(strings.Repeat("\x00", 100_000))                 // A hole, as from a writer without O_APPEND,
	w.raw(orphan(3) + "\n")                                // with a line after it.
	w.raw("\xff\xfe\x00\r\n\n\n\x1b[0m\n" + "\x00" + "\n") // Binary junk.
	w.raw(strings.Repeat("y", maxText-10) + orphan(4) + "\n")
	w.orphans(5)
	f := start(t, newFile(path), Position{})
	f.sees(5)
	f.seesNot(1, 4)
	texts := f.texts()
	if len(texts[0]) != maxText || !strings.HasPrefix(texts[0], orphan(2)) {
		t.Errorf("the long line arrived with %d bytes: %.80q", len(texts[0]), texts[0])
	}
	w.raw(orphan(6)) // A line that never ends.
	for range 8 {
		w.raw(long)
	}
	w.raw("\n")
	w.orphans(7)
	f.sees(5, 7)
	if texts = f.texts(); len(texts) < 3 || count(prefixes(texts, len(orphan(6))), orphan(6)) != 1 {
		t.Error("the beginning of the endless line did not arrive exactly once")
	}
}

func prefixes(texts []string, n int) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = s[:min(n, len(s))]
	}
	return out
}

func TestFileLinesAcrossBlocks(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	var b bytes.Buffer
	var all []int
	for n := range 4000 {
		b.WriteString(strings.Repeat("z", n%97) + "\n" + orphan(n) + "\n")
		all = append(all, n)
	}
	w.raw(b.String())
	f := start(t, newFile(path), Position{})
	f.sees(all[len(all)-1])
	if got := f.texts(); len(got) != len(all) {
		t.Fatalf("%d lines, want %d", len(got), len(all))
	}
	for n, text := range f.texts() {
		if text != orphan(n) {
			t.Fatalf("line %d is %q", n, text)
		}
	}
}

func TestFilePositionIsNotAheadOfTheReceiver(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(0, 1, 2, 3)
	width := int64(len(junk) + len(orphan(0)) + 1)
	src := newFile(path)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan parsers.Line)
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx, Position{}, lines) }()
	for n := range 4 {
		if n > 0 {
			<-lines
		} else {
			waitOpened(t, src)
		}
		// The next line waits in the source or soon will; the position must not include it.
		if got := src.Position().Files[0].Offset; got > int64(n)*width {
			t.Errorf("after %d lines the position is %d, beyond %d", n, got, int64(n)*width)
		}
	}
	cancel()
	testkit.Must(t, <-done)
	f := start(t, newFile(path), src.Position())
	f.sees(3)
	f.seesNot(0, 1)
}

func TestFilePollsWithoutInotify(t *testing.T) {
	for name, make := range map[string]func() (*watcher, error){
		"no instances": func() (*watcher, error) { return nil, unix.EMFILE },
		"dead instance": func() (*watcher, error) {
			w, err := newWatcher()
			if err == nil {
				_ = w.file.Close() // No watch can be added, and another file soon has the number.
				w.fd = -1
			}
			return w, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			w := open(t, path)
			src := newFile(path)
			src.watcher = make
			src.interval = 20 * time.Millisecond
			f := start(t, src, Position{})
			w.orphans(1)
			f.sees(1)
			rename(t, path, path+".1")
			open(t, path).orphans(2)
			f.sees(1, 2)
		})
	}
}

func TestFileLeavesNothingBehind(t *testing.T) {
	path := logPath(t)
	open(t, path).orphans(1)
	before, fds := runtime.NumGoroutine(), openFDs(t)
	for range 5 {
		f := start(t, newFile(path), Position{})
		f.sees(1)
		rename(t, path, path+".1")
		w := open(t, path)
		w.orphans(2)
		f.sees(2)
		f.stop()
		_ = w.Close()
		rename(t, path+".1", path)
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before || openFDs(t) > fds {
		if time.Now().After(deadline) {
			t.Fatalf("goroutines: %d before, %d after; descriptors: %d, %d", before, runtime.NumGoroutine(), fds, openFDs(t))
		}
		time.Sleep(time.Millisecond)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	return len(fds)
}

// TestFileReadErrorIsRetriedAndLoggedOnce checks a read error: a read of a write-only descriptor fails.
func TestFileReadErrorIsRetriedAndLoggedOnce(t *testing.T) {
	path := logPath(t)
	open(t, path).orphans(1)
	var log bytes.Buffer
	src := NewFile(path, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
	lines := make(chan parsers.Line, 100)
	for range 3 {
		testkit.Must(t, src.open())
		_ = src.cur.file.Close()
		var err error
		src.cur.file, err = os.OpenFile(path, os.O_WRONLY, 0)
		testkit.Must(t, err)
		more, err := src.step(t.Context(), lines)
		if more || err == nil {
			t.Fatal("a failed read must return an error and no data")
		}
		src.report(t.Context(), err)
	}
	if n := strings.Count(log.String(), "cannot follow"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	if _, err := src.step(t.Context(), lines); err != nil || len(lines) != 1 {
		t.Errorf("%d lines after the end of the error, want 1: %v", len(lines), err)
	}
	src.cur.close()
}
