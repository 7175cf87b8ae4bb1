package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestFileCatchUpFlag(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	src := newFile(path)
	hold := make(chan struct{})
	f := startHeld(t, src, Position{}, hold)
	close(hold)
	f.sees(1)
	w.orphans(2)
	f.sees(2)
	f.mu.Lock()
	first, last := f.got[0], f.got[1]
	f.mu.Unlock()
	if !first.CatchUp {
		t.Error("a line that was there at the start is not marked CatchUp")
	}
	if last.CatchUp {
		t.Error("a line that was written later is marked CatchUp")
	}
}

// What another file brings with it when it takes the log's name may be of any age, even of
// another boot, whose kubelet may have had the same PID: it may not pass for new.
func TestFileOldContentUnderTheNameIsNotNew(t *testing.T) {
	path := logPath(t)
	open(t, path).orphans(1, 2)
	f := start(t, newFile(path), Position{})
	f.sees(1, 2)
	elsewhere := logPath(t)
	open(t, elsewhere).orphans(90)
	rename(t, elsewhere, path)
	f.sees(90)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.got {
		if string(l.Text) == orphan(90) && !l.CatchUp {
			t.Error("an old line passes for new")
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

// The refill is larger than what was read, so that the size tells nothing. The copy is not read.
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
	f.sees(1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	f.seesNot(2)
}

// The guard off: by size alone the refill's beginning is never read.
func TestFileSizeAloneWouldLoseTheRefill(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	tl, err := openTailed(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tl.close()
	if ok, err := tl.same(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	copyTruncate(t, path, path+".1")
	w.orphans(10, 11, 12)
	if info, err := tl.file.Stat(); err != nil || info.Size() < int64(len(tl.prefix)) {
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
		"proc":      func(p string) error { return os.Symlink("/proc/version", p) },
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

// TestFilesOfTheKernelAreNone: by its mode /proc/kmsg is a regular file. Reading it takes the kernel's
// messages from syslogd, and never ends.
func TestFilesOfTheKernelAreNone(t *testing.T) {
	link := filepath.Join(t.TempDir(), "messages")
	testkit.Must(t, os.Symlink("/proc/version", link))
	for _, path := range []string{"/proc/version", link, "/sys/kernel/fscaps"} {
		if _, err := os.Stat(path); err != nil {
			continue // /sys is not everywhere
		}
		if _, err := openTailed(path); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
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
