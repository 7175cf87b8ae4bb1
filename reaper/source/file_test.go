package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// scene is a log that contains one orphan, and a follower that has read it.
type scene struct {
	*follower
	path string
	w    *writer
}

// TestFileFollows checks changes of a log while it is followed.
func TestFileFollows(t *testing.T) {
	for name, run := range map[string]func(s *scene){
		"appended": func(s *scene) {
			s.w.orphans(2, 3)
			s.sees(1, 2, 3)
		},
		"its directory moved away": func(s *scene) {
			dir := filepath.Dir(s.path)
			rename(s.t, dir, dir+".away")
			testkit.Must(s.t, os.Mkdir(dir, 0o700))
			open(s.t, s.path).orphans(2)
			s.sees(1, 2)
		},
		"its directory becomes a file": func(s *scene) {
			dir := filepath.Dir(s.path)
			rename(s.t, dir, dir+".away")
			open(s.t, dir).raw("now a file\n")
			s.w.orphans(2)
			s.sees(1, 2)
			remove(s.t, dir)
			rename(s.t, dir+".away", dir)
			s.w.orphans(3)
			s.sees(1, 2, 3)
		},
		"renamed while its writer keeps it open": func(s *scene) {
			rename(s.t, s.path, s.path+".1")
			s.w.orphans(2)
			s.sees(2)
			next := open(s.t, s.path)
			s.w.orphans(3) // The writer still has the old file open.
			s.sees(3)
			s.w.orphans(4)
			next.orphans(5)
			s.sees(1, 2, 3, 4, 5)
		},
		"deleted and never made again": func(s *scene) {
			remove(s.t, s.path)
			for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				file, _ := s.src.(*File)
				file.mu.Lock()
				closed := file.cur == nil // an open deleted file would keep its disk space
				file.mu.Unlock()
				if closed {
					break
				}
				if time.Now().After(deadline) {
					s.t.Fatal("the deleted file is still open")
				}
			}
		},
		"renamed and back": func(s *scene) {
			rename(s.t, s.path, s.path+".1")
			s.w.orphans(2)
			s.sees(2)
			rename(s.t, s.path+".1", s.path)
			s.w.orphans(3)
			s.sees(1, 2, 3)
		},
		"copied and truncated": func(s *scene) {
			copyTruncate(s.t, s.path, s.path+".1")
			s.w.orphans(3)
			s.sees(1, 3)
		},
		"deleted and made again": func(s *scene) {
			for n := 2; n <= 10; n++ {
				remove(s.t, s.path)
				open(s.t, s.path).orphans(n)
				s.sees(n)
			}
		},
		"edited": func(s *scene) {
			s.w.raw(strings.Repeat(junk, 20))
			s.w.orphans(2)
			s.sees(2)
			b, err := os.ReadFile(s.path)
			testkit.Must(s.t, err)
			testkit.Must(s.t, os.WriteFile(s.path+"~", b, 0o600))
			rename(s.t, s.path+"~", s.path)
			open(s.t, s.path).orphans(3)
			s.sees(1, 2, 3)
		},
		"a line in two pieces": func(s *scene) {
			s.w.raw(orphan(2)[:90])
			s.w.raw(orphan(2)[90:] + "\n")
			s.w.orphans(3)
			s.sees(1, 2, 3)
			s.w.raw(orphan(4)[:100])
			from := s.stop()
			s.w.raw(orphan(4)[100:] + "\n")
			g := start(s.t, newFile(s.path), from)
			g.sees(4)
			g.seesNot(1, 2, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "log")
			testkit.Must(t, os.Mkdir(dir, 0o700))
			s := &scene{path: filepath.Join(dir, "messages")}
			s.w = open(t, s.path)
			s.w.orphans(1)
			s.follower = start(t, newFile(s.path), Position{})
			s.sees(1)
			run(s)
		})
	}
}

func TestFileMissingAtStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "messages")
	f := start(t, newFile(path), Position{})
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	open(t, path).orphans(1)
	f.sees(1)
}

// TestFileCatchUpFlag checks that the content of a file that replaces the log does not count as new: it may be of any
// age, even from another boot whose kubelet had the same PID.
func TestFileCatchUpFlag(t *testing.T) {
	path := logPath(t)
	w := open(t, path)
	w.orphans(1)
	f := start(t, newFile(path), Position{})
	f.sees(1)
	w.orphans(2)
	f.sees(2)
	elsewhere := logPath(t)
	open(t, elsewhere).orphans(90)
	rename(t, elsewhere, path)
	f.sees(90)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, want := range []bool{true, false, true} {
		if f.got[i].CatchUp != want {
			t.Errorf("line %d: CatchUp is %t", i+1, f.got[i].CatchUp)
		}
	}
}

func waitOpened(t *testing.T, src Source) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for len(src.Position().Files) == 0 || src.Position().Files[0].Length == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the file was not opened")
		}
		time.Sleep(time.Millisecond)
	}
}

// The refill is larger than what was read, so that the size shows nothing. The copy is not read.
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
			t.Parallel()
			path := logPath(t)
			open(t, path).orphans(1)
			src := newFile(path)
			f := start(t, src, Position{})
			f.sees(1)
			remove(t, path)
			testkit.Must(t, replace(path))
			// The follower must neither block on it nor read it.
			for deadline := time.Now().Add(patience); src.State().Err == nil && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
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
	testkit.Must(t, os.Symlink(target, path))
	f := start(t, newFile(path), Position{})
	f.sees(1)
	rename(t, target, target+".1")
	open(t, target).orphans(2)
	f.sees(2)
	other := filepath.Join(dir, "other.log")
	open(t, other).orphans(3)
	testkit.Must(t, os.Symlink(other, path+"~"))
	rename(t, path+"~", path)
	f.sees(1, 2, 3)
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
