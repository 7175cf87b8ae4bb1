package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

func TestFileFromItsBeginning(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1, 2)
	f := start(t, newFile(path), Position{})
	f.sees(1, 2)
	w.orphans(3)
	f.sees(3)
	if n := len(f.texts()); n != 3 {
		t.Errorf("%d lines handed over, want the three orphans and no junk", n)
	}
}

func TestFileCatchUpFlag(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	src := newFile(path)
	hold := make(chan struct{})
	f := startHeld(t, src, Position{}, hold)
	close(hold)
	f.sees(1)
	// A second line is new only once the end has been reached; junk in between is no
	// barrier, so ask for lines until one is.
	for n := 2; ; n++ {
		w.orphans(n)
		f.sees(n)
		f.mu.Lock()
		last := f.got[len(f.got)-1]
		first := f.got[0]
		f.mu.Unlock()
		if !first.CatchUp {
			t.Fatal("a line that was there at start is not marked CatchUp")
		}
		if !last.CatchUp {
			return
		}
		if n > 50 {
			t.Fatal("lines written later stay marked CatchUp")
		}
	}
}

func TestFileMissingAtStart(t *testing.T) {
	path := logPath(t)
	f := start(t, newFile(path), Position{})
	w := open(t, path)
	w.orphans(1)
	f.sees(1)
}

func TestFileDirectoryMissingAtStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "messages")
	f := start(t, newFile(path), Position{})
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, path)
	w.orphans(1)
	f.sees(1)
}

func TestFileDirectoryMovedAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "messages")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, path).orphans(1)
	f := start(t, newFile(path), Position{})
	f.sees(1)
	rename(t, dir, dir+".away")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, path).orphans(2)
	f.sees(1, 2)
}

func TestFileDirectoryBecomesAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "messages")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, path)
	w.orphans(1)
	f := start(t, newFile(path), Position{})
	f.sees(1)
	rename(t, dir, dir+".away")
	open(t, dir).raw("now a file\n")
	w.orphans(2)
	f.sees(1, 2)
	remove(t, dir)
	rename(t, dir+".away", dir)
	w.orphans(3)
	f.sees(1, 2, 3)
}

func TestFileRenamedWhileTheWriterKeepsItOpen(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	f := start(t, newFile(path), Position{})
	f.sees(1)
	rename(t, path, path+".1")
	w.orphans(2)
	f.sees(2)
	next := open(t, path)
	next.orphans(3)
	f.sees(3)
	w.orphans(4) // The writer still has not noticed.
	f.sees(4)
	rename(t, path+".1", path+".2")
	rename(t, path, path+".1")
	open(t, path).orphans(5)
	w.orphans(6)
	next.orphans(7)
	f.sees(1, 2, 3, 4, 5, 6, 7)
}

func TestFileRotatedTwiceBeforeItIsLookedAt(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	hold := make(chan struct{})
	f := startHeld(t, newFile(path), Position{}, hold)
	waitOpened(t, f.src)
	rename(t, path, path+".1")
	open(t, path).orphans(2)
	rename(t, path+".1", path+".2")
	rename(t, path, path+".1")
	open(t, path).orphans(3)
	close(hold)
	f.sees(1, 2, 3)
}

// waitOpened waits until the source has opened its file, which, while nothing is
// received, it then stands in.
func waitOpened(t *testing.T, src Source) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for len(src.Position().Files) == 0 || src.Position().Files[0].Length == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the file is not opened")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFileCopyTruncate(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1, 2)
	f := start(t, newFile(path), Position{})
	f.sees(1, 2)
	copyTruncate(t, path, path+".1")
	w.orphans(3)
	f.sees(1, 2, 3)
}

// The refill is larger than what was read, so that the size tells nothing, and what had
// not been read is in the copy only.
func TestFileCopyTruncateWithALargerRefill(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	hold := make(chan struct{})
	f := startHeld(t, newFile(path), Position{}, hold)
	waitOpened(t, f.src)
	w.orphans(2)
	copyTruncate(t, path, path+".1")
	w.orphans(10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	close(hold)
	f.sees(1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
}

// The guard off: by size alone the refill's beginning is never read.
func TestFileSizeAloneWouldLoseTheRefill(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	tl, _, err := openTailed(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tl.close()
	if ok, err := tl.same(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	copyTruncate(t, path, path+".1")
	w.orphans(10, 11, 12)
	if info, err := tl.stat(); err != nil || info.size < int64(len(tl.prefix)) {
		t.Fatal("the refill is not larger", err)
	}
	if ok, _ := tl.same(0); ok {
		t.Error("the beginning has changed and is not seen to have")
	}
	tl.prefix = nil
	if ok, _ := tl.same(0); !ok {
		t.Error("without a prefix it should look the same")
	}
}

func TestFileDeletedAndMadeAgain(t *testing.T) {
	path := logPath(t)
	open(t, path).orphans(1)
	f := start(t, newFile(path), Position{})
	for n := 1; n < 10; n++ {
		f.sees(n)
		remove(t, path)
		open(t, path).orphans(n + 1)
	}
	f.sees(10)
}

func TestFileEditedInPlaceIsNotReadAgain(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.raw(strings.Repeat(junk, 20))
	w.orphans(1)
	f := start(t, newFile(path), Position{})
	f.sees(1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", b, 0o600); err != nil {
		t.Fatal(err)
	}
	rename(t, path+"~", path)
	open(t, path).orphans(2)
	f.sees(1, 2)
}

func TestFileReplacedByWhatIsNoFile(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"socket":    func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
		"dangling":  func(p string) error { return os.Symlink("nowhere", p) },
		"loop":      func(p string) error { return os.Symlink(filepath.Base(p), p) },
		"device":    func(p string) error { return os.Symlink("/dev/zero", p) },
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			open(t, path).orphans(1)
			f := start(t, newFile(path), Position{})
			f.sees(1)
			remove(t, path)
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			// Whether it is looked at now or later, it must not block nor be read.
			time.Sleep(2 * gather)
			remove(t, path)
			open(t, path).orphans(2)
			f.sees(1, 2)
		})
	}
}

func TestFileSymlinkWhoseTargetRotates(t *testing.T) {
	dir, path := t.TempDir(), logPath(t)
	target := filepath.Join(dir, "kubelet.log")
	open(t, target).orphans(1)
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	f := start(t, newFile(path), Position{})
	f.sees(1)
	rename(t, target, target+".1")
	open(t, target).orphans(2)
	f.sees(2)
	other := filepath.Join(dir, "other.log")
	open(t, other).orphans(3)
	if err := os.Symlink(other, path+"~"); err != nil {
		t.Fatal(err)
	}
	rename(t, path+"~", path)
	f.sees(1, 2, 3)
}

func TestFilePartialLines(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	text := orphan(1)
	w.raw(text[:90])
	src := newFile(path)
	f := start(t, src, Position{})
	w.orphansAfter(text[90:]+"\n", 2)
	f.sees(1, 2)
	w.raw(orphan(3)[:100])
	w.raw("")
	from := f.stop()
	w.raw(orphan(3)[100:] + "\n")
	g := start(t, newFile(path), from)
	g.sees(3)
	g.seesNot(1, 2)
}

func (w *writer) orphansAfter(raw string, ns ...int) {
	w.raw(raw)
	w.orphans(ns...)
}

func TestFilePartialLineOfARotatedFile(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	src := newFile(path)
	src.interval = 100 * time.Millisecond // Old files are closed after two of these.
	f := start(t, src, Position{})
	w.orphans(1)
	w.raw(orphan(2)) // Its writer died.
	f.sees(1)
	rename(t, path, path+".1")
	open(t, path).orphans(3)
	f.sees(1, 2, 3)
}

func TestFileLongLinesAndJunk(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	long := strings.Repeat("x", 3*blockSize)
	w.raw(long + orphan(1) + "\n")                         // The report lies beyond what is kept.
	w.raw(orphan(2) + long + "\n")                         // It is kept, the rest is not.
	w.raw(strings.Repeat("\x00", 100_000))                 // A hole, as a writer without O_APPEND leaves,
	w.raw(orphan(3) + "\n")                                // with a line behind it.
	w.raw("\xff\xfe\x00\r\n\n\n\x1b[0m\n" + "\x00" + "\n") // Binary junk.
	w.raw(strings.Repeat("y", maxText-10) + orphan(4) + "\n")
	w.orphans(5)
	f := start(t, newFile(path), Position{})
	f.sees(5)
	f.seesNot(1, 4)
	texts := f.texts()
	if len(texts[0]) != maxText || !strings.HasPrefix(texts[0], orphan(2)) {
		t.Errorf("the long line is handed over with %d bytes: %.80q", len(texts[0]), texts[0])
	}
	w.raw(orphan(6)) // A line that never ends.
	for range 8 {
		w.raw(long)
	}
	w.raw("\n")
	w.orphans(7)
	f.sees(5, 7)
	if texts = f.texts(); len(texts) < 3 || count(prefixes(texts, len(orphan(6))), orphan(6)) != 1 {
		t.Error("the beginning of the never-ending line is not handed over once")
	}
}

func prefixes(texts []string, n int) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = s[:min(n, len(s))]
	}
	return out
}

func TestFileHoleLeavesTheLineItself(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.raw(strings.Repeat("\x00", 1000) + orphan(1) + "\n")
	start(t, newFile(path), Position{}).sees(1)
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
		// The next line waits in the source now or soon; it must not count.
		if got := src.Position().Files[0].Offset; got > int64(n)*width {
			t.Errorf("after %d lines the position is %d, beyond %d", n, got, int64(n)*width)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f := start(t, newFile(path), src.Position())
	f.sees(3)
	f.seesNot(0, 1)
}

func TestFileRefusesABufferedChannelAndABadName(t *testing.T) {
	if err := newFile("x").Run(t.Context(), Position{}, make(chan parsers.Line, 1)); !errors.Is(err, ErrBuffered) {
		t.Error(err)
	}
	for _, name := range []string{"", "a\x00b"} {
		if err := newFile(name).Run(t.Context(), Position{}, make(chan parsers.Line)); !errors.Is(err, errBadPath) {
			t.Error(name, err)
		}
	}
}

func TestFilePollsWithoutInotify(t *testing.T) {
	for name, make := range map[string]func() (*watcher, error){
		"no instances": func() (*watcher, error) { return nil, unix.EMFILE },
		"dead instance": func() (*watcher, error) {
			w, err := newWatcher()
			if err == nil {
				_ = unix.Close(w.fd) // No watch can be added.
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

func TestFileBusyWriterIsReadInGoodTime(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	f := start(t, newFile(path), Position{})
	block := strings.Repeat(junk, 1000)
	for n := range 100 {
		w.raw(block)
		w.orphans(n)
	}
	f.sees(99)
	if n := len(f.texts()); n != 100 {
		t.Errorf("%d lines, want 100", n)
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
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// failingReader lets a follower's reads fail, by giving it a write-only descriptor.
func TestFileReadErrorIsRetriedAndLoggedOnce(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	var log bytes.Buffer
	src := NewFile(FileOptions{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	lines := make(chan parsers.Line, 100)
	if err := src.look(); err != nil {
		t.Fatal(err)
	}
	writeOnly, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = src.cur.file.Close()
	src.cur.file = writeOnly
	for range 3 {
		more, err := src.step(t.Context(), lines)
		if more || err == nil {
			t.Fatal("a failed read must be an error and no reason to go on at once")
		}
		src.report(t.Context(), err)
		_ = src.cur.file.Close()
		src.cur.file, src.cur.broken = reopenWriteOnly(t, path), false
	}
	if n := strings.Count(log.String(), "cannot follow"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	src.cur.broken = true
	if _, err := src.step(t.Context(), lines); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 {
		t.Errorf("%d lines after the error is gone, want 1", len(lines))
	}
	src.closeAll()
}

func reopenWriteOnly(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRotatedNames(t *testing.T) {
	for _, c := range []struct {
		base, name string
		want       bool
	}{
		{"messages", "messages.1", true},
		{"messages", "messages-20260101", true},
		{"messages", "messages.old", true},
		{"kube.log", "kube-20260101.log", true},
		{"kube.log", "kube.log.1", true},
		{"kube.log", "kube.1.log", true},
		{"messages", "messages", false},
		{"messages", "messages.1.gz", false},
		{"messages", "messages-kernel", false},
		{"messages", "messages2", false},
		{"syslog", "syslog-ng.log", false},
	} {
		if got := rotated(c.base, c.name); got != c.want {
			t.Errorf("rotated(%q, %q) = %v", c.base, c.name, got)
		}
	}
}

var _ io.Writer = (*writer)(nil)
