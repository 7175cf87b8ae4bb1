package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TakePlace makes a suite's directory anew, and locks it: two runs at once would mistake each other's cgroups for residue.
// What was mounted in it by a run that was killed went with that.
func TakePlace(place string) (*os.File, error) {
	if err := os.Mkdir(place, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := os.OpenFile(place, unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(lock.Fd()), &st); err != nil || st.Uid != 0 || st.Mode&0o777 != 0o700 {
		return nil, errors.Join(fmt.Errorf("%s is not ours", place), err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run of the suite is under way: %w", err)
	}
	left, err := os.ReadDir(place)
	for _, entry := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(place, entry.Name())))
	}
	return lock, err
}

// KeepLogs saves the logs of a failed run.
func KeepLogs(suite, pattern, to string) {
	_ = os.RemoveAll(to)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return
	}
	logs, err := filepath.Glob(pattern)
	if err != nil {
		return
	}
	for _, log := range logs {
		if b, err := os.ReadFile(log); err == nil {
			_ = os.WriteFile(filepath.Join(to, filepath.Base(filepath.Dir(log))+"-"+filepath.Base(log)), b, 0o600)
		}
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s: the logs are in %s\n", suite, to)
}

// Below returns the directory and all below it, parents first.
func Below(top string) (all []string) {
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// Mkdir makes a directory and those above it.
func Mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Lay writes a file and makes the directories above it.
func Lay(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	Mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Exists reports whether the path is there.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
