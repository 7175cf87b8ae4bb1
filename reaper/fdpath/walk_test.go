package fdpath

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// recorder writes down what a walk visits.
type recorder struct {
	seen  []string
	enter func(l *Level) bool
	file  func(l *Level, name string)
	leave func(l *Level) bool
}

func (r *recorder) note(what string, l *Level, name string) {
	r.seen = append(r.seen, what+" "+path.Join(append([]string{"."}, l.Rel(name)...)...))
}

func (r *recorder) Enter(l *Level, st *unix.Statx_t) (bool, error) {
	r.note("enter", l, "")
	if !IsDir(st) || IDOf(st) != l.ID {
		return false, errors.New("the status is of another file")
	}
	return r.enter == nil || r.enter(l), nil
}

func (r *recorder) File(l *Level, name string, st *unix.Statx_t) error {
	r.note("file", l, name)
	if r.file != nil {
		r.file(l, name)
	}
	if IsDir(st) {
		return errors.New("a directory was visited as a file")
	}
	return nil
}

func (r *recorder) Leave(l *Level) (bool, error) {
	r.note("leave", l, "")
	return r.leave != nil && r.leave(l), nil
}

func (r *recorder) Failed(l *Level, name, _ string, err error) error {
	r.note(fmt.Sprintf("failed (%v)", err), l, name)
	return nil
}

func walk(t *testing.T, dir string, r *recorder) []string {
	t.Helper()
	return walkBy(t, new(Walker), dir, r)
}

func walkBy(t *testing.T, w *Walker, dir string, r *recorder) []string {
	t.Helper()
	testkit.Must(t, w.Walk(&Level{Dir: dirAt(t, false, dir)}, r))
	return r.seen
}

// wantSorted compares what was seen without its order: a signal, as the Go runtime sends them, ends a getdents64 early, and then
// the files of a directory come after its first subdirectories.
func wantSorted(t *testing.T, seen []string, want ...string) {
	t.Helper()
	slices.Sort(seen)
	wantSeen(t, seen, want...)
}

func wantSeen(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("visited\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWalk checks what is visited, and that a directory is left after what is in it, and again if the visitor asks for it.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+"/a/b", 0o755))
	testkit.Must(t, os.WriteFile(dir+"/a/b/f", nil, 0o600))
	testkit.Must(t, os.Symlink("a", dir+"/link"))
	testkit.Must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	wantSorted(t, walk(t, dir, &recorder{}), "enter .", "enter a", "enter a/b", "file a/b/f", "file fifo", "file link", "leave .", "leave a", "leave a/b")
	wantSorted(t, walk(t, dir, &recorder{enter: func(l *Level) bool { return l.Name != "b" }}),
		"enter .", "enter a", "enter a/b", "file fifo", "file link", "leave .", "leave a")
	again := 0
	leave := func(l *Level) bool { again++; return l.Name == "b" && again == 1 }
	wantSeen(t, walk(t, dir+"/a", &recorder{leave: leave}), "enter .", "enter b", "file b/f", "leave b", "file b/f", "leave b", "leave .")
}

// TestWalkStops checks that a walk visits nothing behind a mount, and nothing on another device.
func TestWalkStops(t *testing.T) {
	dir := t.TempDir()
	away := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+"/a/mount", 0o755))
	testkit.Must(t, os.WriteFile(dir+"/a/file", nil, 0o600))
	testkit.Must(t, os.WriteFile(away+"/secret", nil, 0o600))
	testkit.Mount(t, away, dir+"/a/mount", "", unix.MS_BIND, "")
	testkit.Mount(t, away+"/secret", dir+"/a/file", "", unix.MS_BIND, "")
	for way, no := range ways {
		r := &recorder{}
		testkit.Must(t, new(Walker).Walk(&Level{Dir: dirAt(t, no, dir)}, r))
		t.Log(way)
		wantSorted(t, r.seen, "enter .", "enter a", "failed (invalid cross-device link) a/file", "failed (invalid cross-device link) a/mount", "leave .", "leave a")
	}
	// A btrfs subvolume has another device number than its parent.
	subvolume := &recorder{enter: func(l *Level) bool {
		if l.Depth == 0 {
			l.ID.Dev++
		}
		return true
	}}
	wantSeen(t, walk(t, dir, subvolume), "enter .", "failed ("+ErrSubvolume.Error()+") a", "leave .")
}

// TestWalkChanges exchanges a file and a directory after they were listed: each is visited as what it is, and what changes
// again is reported.
func TestWalkChanges(t *testing.T) {
	dir := t.TempDir()
	mine := t.TempDir() + "/mine"
	exchange := func(name string) {
		testkit.Must(t, unix.Renameat2(unix.AT_FDCWD, dir+"/"+name, unix.AT_FDCWD, mine, unix.RENAME_EXCHANGE))
	}
	testkit.Must(t, os.MkdirAll(dir+"/x/in", 0o755))
	testkit.Must(t, os.WriteFile(dir+"/first", nil, 0o600))
	testkit.Must(t, os.Symlink("first", mine))
	wantSeen(t, walk(t, dir, &recorder{file: func(_ *Level, name string) {
		if name == "first" {
			exchange("x")
		}
	}}), "enter .", "file first", "file x", "leave .")
	r := &recorder{}
	w, l := new(Walker), &Level{Dir: dirAt(t, false, dir)}
	exchange("x")
	testkit.Must(t, w.file(l, "x", r, true))
	wantSeen(t, r.seen, "failed ("+ErrChanges.Error()+") x")
}

// TestWalkDepth checks that a walk holds no more than MaxDepth directories open.
func TestWalkDepth(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(dir+strings.Repeat("/d", 2*MaxDepth), 0o755))
	before, most := testkit.OpenFDs(t), 0
	r := &recorder{enter: func(*Level) bool { most = max(most, testkit.OpenFDs(t)-before); return true }}
	seen := walk(t, dir, r)
	if !slices.Contains(seen, "failed ("+ErrTooDeep.Error()+") "+strings.Repeat("d/", MaxDepth-1)+"d") || most > MaxDepth+1 {
		t.Errorf("%d directories were open", most)
	}
}

// TestWalkWide checks that each name of a large directory is visited once, and what Also adds.
func TestWalkWide(t *testing.T) {
	t.Run("in one piece", func(t *testing.T) { walkWide(t, new(Walker)) })
	t.Run("in several", func(t *testing.T) { walkWide(t, &Walker{buf: make([]byte, 48*sortFrom)}) })
}

func walkWide(t *testing.T, w *Walker) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(dir+"/above", 0o755))
	const n = 3 * sortFrom
	for i := range n {
		testkit.Must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600))
		testkit.Must(t, os.WriteFile(fmt.Sprintf("%s/above/%d", dir, i), nil, 0o600))
	}
	testkit.Must(t, os.MkdirAll(dir+"/above/moved/in", 0o755))
	added := false
	r := &recorder{enter: func(l *Level) bool {
		if l.Name == "moved" && !added {
			testkit.Must(t, os.Rename(dir+"/above/moved", dir+"/later"))
			added = l.Up.Up.Also("later")
			return false
		}
		return true
	}}
	seen := walkBy(t, w, dir, r)
	for _, want := range []string{"enter above/moved", "enter later", "enter later/in", "leave later"} {
		if !slices.Contains(seen, want) {
			t.Errorf("%q is missing", want)
		}
	}
	seen = slices.DeleteFunc(seen, func(s string) bool { return !strings.HasPrefix(s, "file ") })
	slices.Sort(seen)
	if all := len(seen); all != 2*n || len(slices.Compact(seen)) != 2*n {
		t.Errorf("%d files were visited, want %d", all, 2*n)
	}
	l := &Level{pending: make([]string, mostPending)}
	if l.Also("x") {
		t.Error("there is no bound")
	}
}

// TestWalkDeepAndWide shows whose memory is bounded: levels of many directories each would keep some 100,000 names each.
func TestWalkDeepAndWide(t *testing.T) {
	dir := t.TempDir()
	for _, at := range []string{dir, dir + "/in"} {
		testkit.Must(t, os.Mkdir(at+"/in", 0o755))
		for i := range 2 * sortFrom {
			testkit.Must(t, os.Mkdir(fmt.Sprintf("%s/%0200d", at, i), 0o755))
		}
	}
	kept := map[int]int{} // by depth
	walk(t, dir, &recorder{enter: func(l *Level) bool {
		if l.Up != nil {
			kept[l.Depth-1] = max(kept[l.Depth-1], len(l.Up.pending))
		}
		return l.Depth == 0 || l.Name == "in"
	}})
	if kept[0] != 2*sortFrom+1 || kept[1] >= sortFrom || kept[1] == 0 {
		t.Errorf("the levels keep %v names", kept)
	}
}
