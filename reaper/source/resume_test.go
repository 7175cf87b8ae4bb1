package source

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// resumed stops f, encodes its position as JSON like the state directory, and starts another follower from it after
// the change.
func resumed(t *testing.T, f *follower, path string, change func()) *follower {
	t.Helper()
	b, err := json.Marshal(f.stop())
	testkit.Must(t, err)
	var from Position
	testkit.Must(t, json.Unmarshal(b, &from))
	change()
	return start(t, newFile(path), from)
}

// TestResume checks that after a restart the log is read from its position, or from its beginning if it is another
// file by now. Rotated files are not read.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string, w *writer)
		want   []int
	}{
		"unchanged": {func(string, *writer) {}, nil},
		"appended":  {func(_ string, w *writer) { w.orphans(2, 3) }, []int{2, 3}},
		"renamed": {func(path string, w *writer) {
			w.orphans(2) // never read; the kubelet repeats it
			rename(t, path, path+".1")
			open(t, path).orphans(3)
		}, []int{3}},
		"renamed and not made again yet": {func(path string, w *writer) {
			w.orphans(2)
			rename(t, path, path+".1")
		}, nil},
		"edited": {func(path string, w *writer) {
			w.orphans(2)
			b, err := os.ReadFile(path)
			testkit.Must(t, err)
			remove(t, path)
			open(t, path).raw(string(b))
		}, []int{2}},
		"copied and truncated": {func(path string, w *writer) {
			w.orphans(2)
			copyTruncate(t, path, path+".1")
			w.orphans(3)
		}, []int{3}},
		"copied and truncated, larger": {func(path string, w *writer) {
			w.orphans(2)
			copyTruncate(t, path, path+".1")
			w.orphans(3, 4, 5, 6, 7, 8, 9)
		}, []int{3, 4, 5, 6, 7, 8, 9}},
		"deleted and made again": {func(path string, _ *writer) {
			remove(t, path)
			open(t, path).orphans(3)
		}, []int{3}},
	} {
		for _, large := range []string{"", strings.Repeat(junk, 30)} {
			if name == "edited" && large == "" {
				continue // shorter than a fingerprint: a copy cannot be distinguished from another file
			}
			t.Run(name, func(t *testing.T) {
				path := logPath(t)
				w := open(t, path)
				w.raw(large)
				w.orphans(1)
				f := start(t, newFile(path), Position{})
				f.sees(1)
				g := resumed(t, f, path, func() { c.change(path, w) })
				g.sees(c.want...)
				h := resumed(t, g, path, func() { open(t, path).orphans(50) })
				h.sees(50)
				for _, f := range []*follower{g, h} {
					f.seesNot(1)
				}
				h.seesNot(c.want...)
			})
		}
	}
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
	var st unix.Stat_t
	testkit.Must(t, unix.Stat(path, &st))
	return st.Ino
}
