package fdpath

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The tests mount for real, in a mount namespace of their own.
func TestMain(m *testing.M) { testkit.Main(m) }

// ways are the two ways to open a name, with the argument of New.
var ways = map[string]bool{"openat2": false, "mount ID": true}

// open holds a directory until the test ends.
func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	testkit.Must(t, err)
	t.Cleanup(func() { Close(fd) })
	return fd
}

func dirAt(t *testing.T, noOpenat2 bool, path string) *Dir {
	t.Helper()
	o, err := New(noOpenat2)
	testkit.Must(t, err)
	return o.At(open(t, path))
}

func stat(t *testing.T, path string) unix.Statx_t {
	t.Helper()
	st, err := statx(unix.AT_FDCWD, filepath.Clean(path), 0)
	testkit.Must(t, err)
	return st
}

func inode(t *testing.T, path string) uint64 { t.Helper(); st := stat(t, path); return st.Ino }

func device(t *testing.T, path string) uint64 { t.Helper(); st := stat(t, path); return DevOf(&st) }
