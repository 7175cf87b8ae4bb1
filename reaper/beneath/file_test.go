package beneath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNotRegular: a file that is not regular is neither opened nor waited for.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(dir+"/file", []byte("text"), 0o600))
	testkit.Must(t, os.Symlink("file", dir+"/link"))
	testkit.Must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	testkit.Must(t, unix.Mknod(dir+"/sock", unix.S_IFSOCK|0o600, 0))
	testkit.Must(t, os.Mkdir(dir+"/dir", 0o700))
	parent := open(t, dir)
	for way, no := range ways {
		o, err := New(no)
		testkit.Must(t, err)
		d := o.At(parent)
		for _, name := range []string{"link", "fifo", "sock", "dir"} {
			if _, _, err := d.openRegular(name); err == nil {
				t.Errorf("%s: %s was opened", way, name)
			}
			// As if it had replaced a file after its type was read.
			if _, _, err := d.RootFile(name, unix.DT_REG); err == nil {
				t.Errorf("%s: %s was opened by its listing", way, name)
			}
		}
		if _, err := d.ReadFile("fifo", 10); !strings.Contains(fmt.Sprint(err), "it is a FIFO, not a regular file") {
			t.Errorf("%s: %v", way, err)
		}
		if _, _, err := d.RootFile("dir", unix.DT_UNKNOWN); !errors.As(err, &NotRegularError{}) {
			t.Errorf("%s: %v", way, err)
		}
		text, err := d.ReadFile("file", 4)
		if err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", way, text, err)
		}
		if _, err := d.ReadFile("file", 3); err == nil {
			t.Errorf("%s: read beyond the limit", way)
		}
		if _, err := d.ReadFile("none", 3); !Gone(err) {
			t.Errorf("%s: %v", way, err)
		}
	}
}

// TestListing checks that every name is returned once with any buffer, and that the limit is reported.
func TestListing(t *testing.T) {
	dir := t.TempDir()
	want := make([]string, 500)
	for i := range want {
		want[i] = fmt.Sprintf("%0*d", 1+i%200, i)
		testkit.Must(t, os.WriteFile(dir+"/"+want[i], nil, 0o600))
	}
	slices.Sort(want)
	for _, size := range []int{512, 32 << 10} {
		fd := open(t, dir)
		var got []string
		testkit.Must(t, EachName(fd, make([]byte, size), func(e Entry) bool {
			got = append(got, e.Name)
			return true
		}))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d names, not %d", len(got), len(want))
		}
		_, err := unix.Seek(fd, 0, io.SeekStart)
		testkit.Must(t, err)
		got = nil
		n := NamesOf(fd, make([]byte, size))
		for piece, more, err := n.Piece(nil); more || err != nil; piece, more, err = n.Piece(piece) {
			testkit.Must(t, err)
			for _, e := range piece {
				got = append(got, e.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d names in pieces, not %d", len(got), len(want))
		}
	}
	if got, err := List(open(t, dir), 10); len(got) != 10 || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d names, %v", len(got), err)
	}
}

// TestReadInto: a buffer grows from nothing, and not above the limit.
func TestReadInto(t *testing.T) {
	name := t.TempDir() + "/f"
	text := bytes.Repeat([]byte("x"), 100_000)
	testkit.Must(t, os.WriteFile(name, text, 0o600))
	read := func(size, limit int64) ([]byte, error) {
		f, err := os.Open(name)
		testkit.Must(t, err)
		defer f.Close()
		return ReadInto(int(f.Fd()), nil, size, limit)
	}
	for _, size := range []int64{0, 10, 100_000} {
		if got, err := read(size, 100_000); err != nil || !bytes.Equal(got, text) || cap(got) > 100_001 {
			t.Errorf("size %d: %d bytes, room for %d, %v", size, len(got), cap(got), err)
		}
		if _, err := read(size, 99_999); err == nil {
			t.Errorf("size %d: more than the limit is read", size)
		}
	}
}

// TestBadEntries: a buffer that does not hold what getdents64 promises is an error, never a name.
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
		if e, err := (&Names{rest: b}).parse(); err == nil {
			t.Errorf("%s: %+v", what, e)
		}
	}
	if e, err := (&Names{rest: good}).parse(); err != nil || e.Name != "ab" || e.Kind != unix.DT_REG {
		t.Errorf("%+v, %v", e, err)
	}
}
