package fdpath

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNotRegular checks that a file that is not regular is neither opened nor waited for.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	long := bytes.Repeat([]byte("text"), 5000)
	testkit.Must(t, os.WriteFile(dir+"/file", long, 0o600))
	testkit.Must(t, os.Symlink("file", dir+"/link"))
	testkit.Must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	testkit.Must(t, unix.Mknod(dir+"/sock", unix.S_IFSOCK|0o600, 0))
	testkit.Must(t, os.Mkdir(dir+"/dir", 0o700))
	for way, no := range ways {
		d := dirAt(t, no, dir)
		for _, name := range []string{"link", "fifo", "sock", "dir"} {
			if _, err := d.ReadFile(name, 10); !errors.As(err, &NotRegularError{}) {
				t.Errorf("%s: %s: %v", way, name, err)
			}
		}
		if _, err := d.ReadFile("fifo", 10); !strings.Contains(fmt.Sprint(err), "it is a FIFO, not a regular file") {
			t.Errorf("%s: %v", way, err)
		}
		if text, err := d.ReadFile("file", int64(len(long))); err != nil || !bytes.Equal(text, long) {
			t.Errorf("%s: %d bytes, %v", way, len(text), err)
		}
		if _, err := d.ReadFile("file", int64(len(long))-1); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: read beyond the limit: %v", way, err)
		}
		if _, err := d.ReadFile("none", 3); !Gone(err) {
			t.Errorf("%s: %v", way, err)
		}
	}
}

// TestReadSeen: a name is read only while it is the file that was seen.
func TestReadSeen(t *testing.T) {
	for way, no := range ways {
		for what, change := range map[string]func(path string) error{
			"":             func(string) error { return nil },
			"written to":   func(path string) error { return os.WriteFile(path, []byte("next"), 0o600) },
			"replaced":     func(path string) error { return os.Rename(path+"2", path) },
			"a FIFO now":   func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
			"a link now":   func(path string) error { return errors.Join(os.Rename(path, path+"3"), os.Symlink(path+"3", path)) },
			"no more":      os.Remove,
			"on its mount": func(path string) error { return unix.Mount(path+"2", path, "", unix.MS_BIND, "") },
		} {
			t.Run(way+", "+what, func(t *testing.T) {
				d := dirAt(t, no, t.TempDir())
				path := "/proc/self/fd/" + strconv.Itoa(d.FD()) + "/file"
				testkit.Must(t, os.WriteFile(path, []byte("text"), 0o600))
				testkit.Must(t, os.WriteFile(path+"2", []byte("text"), 0o600))
				text, st, err := d.ReadStat("file", 4)
				testkit.Must(t, err)
				seen := Seen{st.Ino, Nanos(st.Ctime)}
				for when := stat(t, path); Nanos(when.Ctime) == seen.Ctime && what != ""; when = stat(t, path+"2") {
					testkit.Must(t, os.Chmod(path+"2", 0o600)) // until the clock of the file system has ticked
				}
				if change(path) != nil {
					testkit.Skip(t, "nothing can be mounted")
				}
				t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
				again, _, err := d.ReadSeen("file", seen, 4)
				if (err == nil) != (what == "") || err == nil && !bytes.Equal(again, text) {
					t.Errorf("%q, %v", again, err)
				}
				if _, _, err = d.ReadSeen("file", seen, 3); err == nil {
					t.Error("read beyond the limit")
				}
			})
		}
	}
}

// TestList checks that every name is returned once, from the beginning, and that the limit is reported.
func TestList(t *testing.T) {
	dir := t.TempDir()
	want := make([]string, 3000)
	for i := range want {
		want[i] = fmt.Sprintf("%0*d", 1+i%200, i)
		testkit.Must(t, os.WriteFile(dir+"/"+want[i], nil, 0o600))
	}
	slices.Sort(want)
	d := dirAt(t, false, dir)
	for range 2 {
		list, err := d.List(5000)
		testkit.Must(t, err)
		got := make([]string, len(list))
		for i, e := range list {
			got[i] = e.Name
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d names, not %d", len(got), len(want))
		}
	}
	if got, err := d.List(10); len(got) != 10 || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d names, %v", len(got), err)
	}
}

// TestBadEntries checks that a buffer that does not hold what getdents64 promises is an error, never a name.
func TestBadEntries(t *testing.T) {
	good := append(make([]byte, 16), 24, 0, unix.DT_REG, 'a', 'b', 0, 0, 0)
	for what, b := range map[string][]byte{
		"cut off":    good[:20],
		"too long":   slices.Concat(good[:16], []byte{25, 0}, good[18:]),
		"too short":  slices.Concat(good[:16], []byte{19, 0}, good[18:]),
		"no name":    slices.Concat(good[:19], make([]byte, 5)),
		"no NUL":     slices.Concat(good[:19], []byte("abcde")),
		"some bytes": good[:3],
	} {
		if list, err := parse(b, nil); err == nil {
			t.Errorf("%s: %+v", what, list)
		}
	}
	if list, err := parse(slices.Concat(good, good), nil); err != nil || len(list) != 2 || list[1].name(slices.Concat(good, good)) != "ab" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestWithin checks the search upwards, also across mounts.
func TestWithin(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+"/a/b", 0o755))
	testkit.Must(t, os.Mkdir(dir+"/c", 0o755))
	testkit.Mount(t, "tmpfs", dir+"/a/b", "tmpfs", 0, "")
	testkit.Must(t, os.Mkdir(dir+"/a/b/in", 0o755))
	for path, want := range map[string]bool{"/a": true, "/a/b/in": true, "/c": false, "": false} {
		a := stat(t, dir+"/a")
		if got, err := dirAt(t, false, dir+path).Within(IDOf(&a)); got != want || err != nil {
			t.Errorf("%q: %t, %v", path, got, err)
		}
	}
	if in, err := (&Dir{fd: -1}).Within(IDOf(new(unix.Statx_t))); !in || err == nil {
		t.Error("an error is no doubt")
	}
}

// TestStatIn: a status is taken through a name only if that is a directory and is known to be no mount point. A kernel before
// 5.8 does not show these.
func TestStatIn(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/in", 0o700))
	testkit.Must(t, os.WriteFile(dir+"/in/file", nil, 0o600))
	d := dirAt(t, false, dir)
	for name, edit := range map[string]func(st *unix.Statx_t){
		"":                      func(*unix.Statx_t) {},
		"a mount point":         func(st *unix.Statx_t) { st.Attributes |= unix.STATX_ATTR_MOUNT_ROOT },
		"no mount is shown":     func(st *unix.Statx_t) { st.Attributes_mask &^= unix.STATX_ATTR_MOUNT_ROOT },
		"a link to a directory": func(st *unix.Statx_t) { st.Mode = unix.S_IFLNK },
	} {
		st, err := d.StatName("in")
		testkit.Must(t, err)
		edit(&st)
		if _, ok, err := d.StatIn("in", "file", &st); err != nil || ok != (name == "") {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
}
