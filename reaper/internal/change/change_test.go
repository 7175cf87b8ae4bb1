package change

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// TestFile: a file is made whole, gets its time, changes its name without replacing another, and
// goes.
func TestFile(t *testing.T) {
	path := t.TempDir()
	open, err := beneath.New(false)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := open.Open(path)
	if err == nil {
		dir, err = dir.Step(".")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	old := time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC)
	make1 := func(name string) error {
		fd, err := Create(dir, name)
		if err != nil {
			return err
		}
		return Close(fd, errors.Join(Write(fd, []byte("content")), SetModTime(fd, old)))
	}
	if err := errors.Join(make1("a"), make1("b"), Fsync(dir.FD())); err != nil {
		t.Fatal(err)
	}
	if err := make1("a"); !Is(err, unix.EEXIST) {
		t.Errorf("made twice: %v", err)
	}
	if err := Renameat2(dir, "a", dir, "b", unix.RENAME_NOREPLACE); !Is(err, unix.EEXIST) {
		t.Errorf("renamed over another: %v", err)
	}
	if err := Renameat2(dir, "a", dir, "c", unix.RENAME_NOREPLACE); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path + "/c")
	if err != nil || !info.ModTime().Equal(old) || info.Size() != 7 || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := errors.Join(Unlinkat(dir, "b", 0), Unlinkat(dir, "c", 0)); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(path); err != nil || len(names) != 0 {
		t.Errorf("%v %v", names, err)
	}
}

// TestClose: the first error is what counts, and that of close is one.
func TestClose(t *testing.T) {
	if err := Close(-1, nil); !Is(err, unix.EBADF) {
		t.Errorf("close: %v", err)
	}
	if err := Close(-1, unix.EIO); !Is(err, unix.EIO) {
		t.Errorf("write, then close: %v", err)
	}
}

func TestExplain(t *testing.T) {
	for err, words := range map[error]string{
		unix.EBUSY: "unmount it first", unix.EACCES: "lsattr", unix.EROFS: "read-only", unix.EDQUOT: "full", unix.EEXIST: "in use",
		unix.ENOSYS: "without replacing", unix.EXDEV: "", unix.ENOENT: "",
	} {
		err = &fs.PathError{Op: "renameat2", Path: "a", Err: err}
		got := Explain(err)
		if !errors.Is(got, err) || (words == "") != (got == err) || !strings.Contains(got.Error(), words) { //nolint:errorlint // the same value
			t.Errorf("%v: %v", err, got)
		}
	}
	if Is(fmt.Errorf("our own"), unix.EPERM) {
		t.Error("an error of our own has a number")
	}
}
