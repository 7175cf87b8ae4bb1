package quarantine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// deep makes nested directories, each with a file and a directory beside the next level.
func deep(t *testing.T, path string, levels int) {
	t.Helper()
	at, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range levels {
		if err != nil {
			t.Fatal(err)
		}
		fd, e := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		fdpath.Close(fd)
		err = errors.Join(e, unix.Mkdirat(at, "beside", 0o700), unix.Mkdirat(at, "d", 0o700))
		next, e := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		fdpath.Close(at)
		at, err = next, errors.Join(err, e)
	}
	fdpath.Close(at)
}

// TestDeep removes a tree with more levels than the process may have descriptors.
func TestDeep(t *testing.T) {
	levels := 3000
	if testkit.Long() {
		levels = 10_000
	}
	var old unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, q, m := entryWith(t, no, content.All, "dir "+emptyDirE)
			deep(t, tr.entry()+"/"+emptyDirE, levels)
			few := unix.Rlimit{Cur: 128, Max: old.Max}
			tr.Must(unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
			o := run1(t, q, m)
			tr.Must(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
			want(t, o, judge.Done)
			if n := o.Taken[content.Ephemeral].Entries; n != int64(levels)*3+1 {
				t.Fatalf("%d entries removed", n)
			}
		})
	}
}

// TestLift checks that nothing deeper than liftFrom below the top of its tree is removed in place: Landlock checks each level
// at each step. Without it, or where no directory can be moved, a deep tree is kept.
func TestLift(t *testing.T) {
	for how, c := range map[string]struct {
		set    func(*guards)
		lifted bool
	}{
		"lifted":     {func(*guards) {}, true},
		"not lifted": {func(g *guards) { g.liftFrom = 1 << 20 }, false},
		"cannot be":  {func(g *guards) { g.noreplace = 1 << 20 }, false},
	} {
		t.Run(how, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE)
			deep(t, tr.entry()+"/"+emptyDirE, 500)
			c.set(&q.guards)
			depth, deepest := 0, 0
			before(q, func(_, name string) {
				switch {
				case name == "file": // one for each level, removed on the way down
					depth++
					deepest = max(deepest, depth)
				case name == "d" || strings.HasPrefix(name, "lifted-"):
					depth--
				}
			})
			o := run1(t, q, m)
			if c.lifted {
				want(t, o, judge.Done)
			} else {
				want(t, o, judge.Failed, "too deep")
				q.guards.liftFrom, q.guards.noreplace = liftFrom, unix.RENAME_NOREPLACE
				want(t, run1(t, q, m), judge.Done)
			}
			if deepest > fdpath.MaxDepth {
				t.Errorf("removals at %d levels", deepest)
			}
		})
	}
}

// TestLiftOther checks that the walk stops if a directory was replaced after it was opened.
func TestLiftOther(t *testing.T) {
	testkit.OnTmpfs(t)
	tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE)
	top := tr.entry() + "/" + emptyDirE
	deep(t, top, 100)
	lifts := 0
	before(q, func(op, name string) {
		if op == "rename" {
			if lifts++; lifts == 1 {
				at := top + strings.Repeat("/d", liftFrom-1)
				tr.Must(os.Rename(at+"/beside", at+"/it"))
				tr.Must(os.Mkdir(at+"/beside", 0o700))
				tr.Must(unix.Renameat2(unix.AT_FDCWD, at+"/d", unix.AT_FDCWD, at+"/beside", unix.RENAME_EXCHANGE))
				_ = name
			}
		}
	})
	o := run1(t, q, m)
	want(t, o, judge.Failed, "another directory")
	q.disk = kernel{}
	want(t, run1(t, q, m), judge.Done) // the next run removes everything
}

// TestLiftMany checks that all lifted directories are removed, also those beyond the number that the walk notes.
func TestLiftMany(t *testing.T) {
	testkit.OnTmpfs(t)
	tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE)
	q.guards.liftFrom = 2
	at := tr.entry() + "/" + emptyDirE + "/d"
	const n = 10_500
	for i := range n {
		tr.Must(os.MkdirAll(at+"/"+strconv.Itoa(i)+"/x", 0o700))
	}
	o := run1(t, q, m)
	want(t, o, judge.Done)
	if got := o.Taken[content.Ephemeral].Entries; got != 2*n+2 {
		t.Errorf("%d entries removed", got)
	}
}

// TestDeepKept checks that the walk ends in a tree deeper than it goes, with a file at the bottom that cannot be removed.
func TestDeepKept(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE+"/"+strings.Repeat("d/", 300), "file "+emptyDirE+"/d/d/beside 1")
	bottom := tr.entry() + "/" + emptyDirE + "/" + strings.Repeat("d/", 300)
	tr.Must(os.WriteFile(bottom+"fixed", nil, 0o600))
	if err := testkit.Immutable(bottom+"fixed", true); err != nil {
		testkit.Skip(t, "nothing can be made immutable: ", err)
	}
	o := run1(t, q, m)
	want(t, o, judge.Failed, "fixed")
	if len(o.Left) != 1 {
		t.Fatalf("%+v", o.Left)
	}
	left := tr.entry() + "/" + o.Left[0].Path
	testkit.There(t, left, true)
	tr.Must(testkit.Immutable(left, false))
	want(t, run1(t, q, m), judge.Done)
}

// TestMovedAway moves a directory out of quarantine while it is emptied, as a host process may. The walk stops within
// checkEvery removals, and under Landlock at the next one. Without both everything is lost.
func TestMovedAway(t *testing.T) {
	testkit.OnTmpfs(t)
	const files = 2000
	for _, tc := range []struct {
		moved, landlock bool
		pods            bool // into the pods directory instead of beside it
		most, least     int  // number of remaining files
	}{
		{moved: true, most: files, least: files - checkEvery},
		{landlock: true, most: files, least: files - 10},
		{landlock: true, pods: true, most: files, least: files - 10},
		{pods: true, most: 1},
		{most: 1},
	} {
		tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE+"/keep/inner")
		keep := tr.entry() + "/" + emptyDirE + "/keep"
		for i := range files {
			tr.Must(os.WriteFile(fmt.Sprintf("%s/inner/%d", keep, i), nil, 0o600))
		}
		q.guards.moved = tc.moved
		if tc.landlock {
			needLandlock(t, q)
		} else {
			q.landlock.handled = 0
		}
		n, kept := 0, tr.Base+"/kept"
		if tc.pods {
			kept = tr.pod()
		}
		before(q, func(op, _ string) {
			if n++; op == "unlink" && n == 10 {
				tr.Must(os.Rename(keep, kept))
			}
		})
		want(t, run1(t, q, m), judge.Failed)
		if left := len(testkit.Listing(t, kept)); left < tc.least || left > tc.most {
			t.Fatalf("%+v: %d of %d files remain", tc, left, files)
		}
	}
}

// TestMovedAwayTree checks that no more of a moved tree of small directories is removed than of one large directory. With a
// check every 256 removals all of it was removed.
func TestMovedAwayTree(t *testing.T) {
	testkit.OnTmpfs(t)
	const dirs = 100
	tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE+"/keep")
	keep := tr.entry() + "/" + emptyDirE + "/keep"
	for i := range dirs {
		tr.One(keep, fmt.Sprintf("file %d/file 1", i))
	}
	q.landlock.handled = 0
	n := 0
	before(q, func(op, _ string) {
		if n++; op == "unlink" && n == 1 {
			tr.Must(os.Rename(keep, tr.Base+"/kept"))
		}
	})
	want(t, run1(t, q, m), judge.Failed, "moved away")
	if left := len(testkit.Listing(t, tr.Base+"/kept")); left < 2*dirs-40 {
		t.Errorf("%d of %d files and directories remain", left, 2*dirs)
	}
}
