package quarantine

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The tests mount for real, in a mount namespace of their own.
func TestMain(m *testing.M) {
	if os.Getenv(envCutOff) != "" {
		os.Exit(cutOffHelper())
	}
	testkit.Main(m)
}

const (
	uidA = testkit.PodA
	uidB = testkit.PodB
	// entryA is uidA's entry in quarantine.
	entryA = string(uidA) + ".1"
)

// granted is the gate's permit for an operator's command on a healthy node.
var granted = judge.Standing{Operator: true, Node: judge.Node{SeesMounts: judge.Fact{Truth: judge.Yes}}}.Gate()

// hooked calls before right before each change.
type hooked struct {
	disk
	before func(op, name string)
}

func (h hooked) mkdir(parent *fdpath.Dir, name string) error {
	h.before("mkdir", name)
	return h.disk.mkdir(parent, name)
}

func (h hooked) create(dir *fdpath.Dir, name string, text []byte) error {
	h.before("create", name)
	return h.disk.create(dir, name, text)
}

func (h hooked) unlink(dir *fdpath.Dir, name string) error {
	h.before("unlink", name)
	return h.disk.unlink(dir, name)
}

func (h hooked) rmdir(dir *fdpath.Dir, name string) error {
	h.before("rmdir", name)
	return h.disk.rmdir(dir, name)
}

func (h hooked) rename(from *fdpath.Dir, name string, to *fdpath.Dir, as string, flags uint) error {
	h.before("rename", as)
	return h.disk.rename(from, name, to, as, flags)
}

func (h hooked) unmount(dir *fdpath.Dir, name string) error {
	h.before("unmount", name)
	return h.disk.unmount(dir, name)
}

func (h hooked) sync(dir *fdpath.Dir) error {
	h.before("sync", "")
	return h.disk.sync(dir)
}

// tree is a kubelet's root directory on which a Quarantine works.
type tree struct{ *testkit.Tree }

func newTree(tb testing.TB, specs ...string) *tree {
	tb.Helper()
	return &tree{testkit.NewTree(tb, specs...)}
}

func (tr *tree) open(noOpenat2 bool) *Quarantine {
	tr.T.Helper()
	q, err := Open(Config{PodsDir: tr.Pods, Dir: tr.Quar, NoOpenat2: noOpenat2})
	tr.Must(err)
	return q
}

// before sets a hook that runs on another thread than the batch's, which Landlock confines.
func before(q *Quarantine, hook func(op, name string)) {
	q.disk = hooked{kernel{}, testkit.Outside(hook)}
}

func idAt(tb testing.TB, path string) judge.FileID {
	tb.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		tb.Fatal(err)
	}
	return fdpath.IDOf(&st)
}

func (tr *tree) pod() string { return tr.Pods + "/" + string(uidA) }

func (tr *tree) entry() string { return tr.Quar + "/" + entryA }

func (tr *tree) move(uid parsers.PodUID) judge.Move {
	tr.T.Helper()
	return judge.Move{Action: judge.Quarantine, UID: uid, Entry: string(uid) + ".1", ID: idAt(tr.T, tr.Pods+"/"+string(uid))}
}

func run(tb testing.TB, q *Quarantine, moves ...judge.Move) []judge.Outcome {
	tb.Helper()
	outs := q.Execute(context.Background(), granted, moves)
	if len(outs) != len(moves) {
		tb.Fatalf("%d outcomes for %d moves", len(outs), len(moves))
	}
	return outs
}

func run1(tb testing.TB, q *Quarantine, m judge.Move) judge.Outcome {
	tb.Helper()
	return run(tb, q, m)[0]
}

// quarantined moves uidA to quarantine and returns the move with another action.
func (tr *tree) quarantined(q *Quarantine, next judge.Action) judge.Move {
	tr.T.Helper()
	m := tr.move(uidA)
	want(tr.T, run1(tr.T, q, m), judge.Done)
	m.Action = next
	return m
}

// entryWith makes a tree whose pod uidA is in quarantine with this content, and returns the move that removes from it.
func entryWith(tb testing.TB, noOpenat2 bool, remove content.Set, specs ...string) (*tree, *Quarantine, judge.Move) {
	tb.Helper()
	tr := newTree(tb)
	q := tr.open(noOpenat2)
	m := tr.quarantined(q, judge.Clean)
	tr.Build(tr.entry(), specs...)
	m.Remove = remove
	return tr, q, m
}

// want fails the test unless the outcome has this result, and an error with these words if there are any.
func want(tb testing.TB, o judge.Outcome, result judge.Result, words ...string) {
	tb.Helper()
	if o.Result != result {
		tb.Fatalf("result %s, want %s: %s", o.Result, result, o.Err)
	}
	if ok := result == judge.Done || result == judge.Gone || result == judge.Partly; ok != (o.Err == "") {
		tb.Fatalf("%s with the error %q", result, o.Err)
	}
	for _, w := range words {
		if !strings.Contains(o.Err+"$", w) { // $ is the end: no wrong hint comes after it
			tb.Fatalf("%q does not contain %q", o.Err, w)
		}
	}
}

const mounted = "mount point"

func listing(tb testing.TB, dir string) []string {
	tb.Helper()
	names := testkit.Listing(tb, dir)
	slices.Sort(names)
	return names
}

func wantListing(tb testing.TB, dir string, names ...string) {
	tb.Helper()
	slices.Sort(names)
	if got := listing(tb, dir); !slices.Equal(got, names) {
		tb.Fatalf("in %s there is\n%q\nwant\n%q", dir, got, names)
	}
}
