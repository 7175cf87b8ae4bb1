package source

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// resumed stops f, passes its position through JSON, as the state directory does, and
// starts another follower of the same file from it after the change.
func resumed(t *testing.T, f *follower, path string, change func()) *follower {
	t.Helper()
	b, err := json.Marshal(f.stop())
	if err != nil {
		t.Fatal(err)
	}
	var from Position
	if err := json.Unmarshal(b, &from); err != nil {
		t.Fatal(err)
	}
	change()
	return start(t, newFile(path), from)
}

func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, w *writer)
		want   []int
	}{
		"unchanged": {func(*testing.T, string, *writer) {}, nil},
		"appended":  {func(_ *testing.T, _ string, w *writer) { w.orphans(2, 3) }, []int{2, 3}},
		"renamed": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			rename(t, path, path+".1")
			open(t, path).orphans(3)
		}, []int{2, 3}},
		"renamed by date": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			rename(t, path, path+"-20260101")
			open(t, path).orphans(3)
		}, []int{2, 3}},
		"renamed and not made again yet": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			rename(t, path, path+".1")
		}, []int{2}},
		"renamed three times": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			rename(t, path, path+".3")
			open(t, path).orphans(3)
			rename(t, path, path+".2")
			open(t, path).orphans(4)
			rename(t, path, path+".1")
			open(t, path).orphans(5)
		}, []int{2, 3, 4, 5}},
		"copied and truncated": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			copyTruncate(t, path, path+".1")
			w.orphans(3)
		}, []int{2, 3}},
		"copied and truncated, larger": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			copyTruncate(t, path, path+".1")
			w.orphans(3, 4, 5, 6, 7, 8, 9)
		}, []int{2, 3, 4, 5, 6, 7, 8, 9}},
		"deleted and made again": {func(t *testing.T, path string, _ *writer) {
			t.Helper()
			remove(t, path)
			open(t, path).orphans(3)
		}, []int{3}},
		"deleted, made again, rotated": {func(t *testing.T, path string, _ *writer) {
			t.Helper()
			remove(t, path)
			open(t, path).orphans(3)
			rename(t, path, path+".1")
			open(t, path).orphans(4)
		}, []int{3, 4}},
		"a directory": {func(t *testing.T, path string, w *writer) {
			t.Helper()
			w.orphans(2)
			rename(t, path, path+".1")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []int{2}},
	} {
		for _, large := range []string{"", strings.Repeat(junk, 30)} {
			t.Run(name, func(t *testing.T) {
				path := logPath(t)
				// A file of long ago, which is none of ours.
				open(t, path+".9").orphans(99)
				old := mustStat(t, path+".9").ModTime().AddDate(0, 0, -1)
				if err := os.Chtimes(path+".9", old, old); err != nil {
					t.Fatal(err)
				}
				w := open(t, path)
				w.raw(large)
				w.orphans(1)
				f := start(t, newFile(path), Position{})
				f.sees(1)
				g := resumed(t, f, path, func() { c.change(t, path, w) })
				g.sees(c.want...)
				g = resumed(t, g, path, func() { w.orphans(50); open(t, path+".0") })
				g.sees(nth(c.want == nil || !gone(name))...)
				g.seesNot(append(c.want, 1, 99)...)
			})
		}
	}
}

// gone says in which scenarios the first file has no name any more.
func gone(name string) bool { return strings.HasPrefix(name, "deleted") }

func nth(has bool) []int {
	if has {
		return []int{50}
	}
	return nil
}

func mustStat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

func TestResumeForgedPositionsAreAFirstStart(t *testing.T) {
	path := logPath(t)
	open(t, path).orphans(1)
	ino := inode(t, path)
	for name, p := range map[string]FilePosition{
		"other fingerprint": {Inode: ino, Offset: 10, Length: 5, Fingerprint: "00"},
		"beyond the end":    {Inode: ino, Offset: 1 << 40, Length: 0, Fingerprint: fingerprint(nil)},
		"negative":          {Inode: ino, Offset: -1, Length: -1, Fingerprint: fingerprint(nil)},
		"long prefix":       {Inode: ino, Offset: 1, Length: 5000, Fingerprint: fingerprint(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, newFile(path), Position{Files: []FilePosition{p}}).sees(1)
		})
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := statRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ino
}
