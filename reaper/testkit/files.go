package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// MountAt returns the ID of the topmost mount at path, "" if there is none.
func MountAt(tb testing.TB, path string) string {
	tb.Helper()
	id := ""
	for _, m := range mounts(tb) {
		if m[1] == path {
			id = m[0]
		}
	}
	return id
}

// mounts returns the ID and the mount point of each mount in this namespace.
func mounts(tb testing.TB) [][2]string {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	Must(tb, err)
	var all [][2]string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		all = append(all, [2]string{f[0], f[4]})
	}
	return all
}

// UnmountBelow unmounts everything at base and below it.
func UnmountBelow(tb testing.TB, base string) {
	tb.Helper()
	all := mounts(tb)
	slices.Reverse(all)
	for _, m := range all {
		if m[1] == base || strings.HasPrefix(m[1], base+"/") {
			if err := unix.Unmount(strings.TrimSuffix(m[1], "//deleted"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				tb.Errorf("cannot unmount %s: %v", m[1], err)
			}
		}
	}
}

// OpenFDs counts the descriptors of this process.
func OpenFDs(tb testing.TB) int {
	tb.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	Must(tb, err)
	return len(names)
}

// There fails the test unless the path exists, or with yes false does not exist.
func There(tb testing.TB, path string, yes bool) {
	tb.Helper()
	_, err := os.Lstat(path)
	if (err == nil) != yes {
		tb.Fatalf("%s exists: %v (%v), want %v", path, err == nil, err, yes)
	}
}

// Listing returns all paths below dir, sorted.
func Listing(tb testing.TB, dir string) []string {
	tb.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			all = append(all, rel)
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	return all
}

const fsImmutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h

// Immutable sets or clears the immutable flag, chattr(1).
func Immutable(path string, on bool) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= fsImmutable
	if on {
		flags |= fsImmutable
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func clearImmutable(base string) {
	_ = filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type().IsRegular()) {
			_ = Immutable(path, false)
		}
		return nil
	})
}

// File writes a file in a temporary directory and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	return WriteText(t, filepath.Join(t.TempDir(), name), text)
}
