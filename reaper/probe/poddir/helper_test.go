package poddir

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var (
	newUID     = testkit.NewUID
	openTest   = testkit.Open
	wantDetail = testkit.WantDetail
	must       = testkit.Must
	stick      = testkit.Stick
)

const goodVolData = `{"attachmentID":"csi-1","driverName":"ebs.csi.aws.com","nodeName":"n","specVolID":"pv-1","volumeHandle":"vol-1"}`

// testTree has the kubelet's directories in a temporary directory.
type testTree struct {
	*Reader
	testkit.Node
}

func newTree(t *testing.T) *testTree {
	t.Helper()
	n := &testTree{Node: testkit.NewNode(t)}
	n.Reader = &Reader{
		RootDir: n.Base + "/kubelet", QuarantineDir: n.Base + "/kubelet/orphan-reaper",
		Guard: &bounded.Guard{Patience: 2 * time.Minute},
	}
	var err error
	n.Open, err = beneath.New(false)
	must(t, err)
	if n.Open.Fallback() != nil {
		testkit.Skip(t, "this needs openat2")
	}
	n.Mkdir("kubelet/pods")
	return n
}

// modes are the two ways to open files; a test of opened files runs in both.
var modes = map[string]func(t *testing.T) *testTree{
	"openat2": newTree,
	"fallback": func(t *testing.T) *testTree {
		t.Helper()
		n := newTree(t)
		var err error
		n.Open, err = beneath.New(true)
		must(t, err)
		return n
	},
}

// open lists the pods directory until the test ends.
func (n *testTree) open() *Dirs {
	n.T.Helper()
	d, err := n.List(n.T.Context())
	must(n.T, err)
	n.T.Cleanup(d.Close)
	quarantine, csi := n.OpenBeside(n.T.Context(), d)
	must(n.T, errors.Join(quarantine, csi))
	return d
}

// read reads all pods and the parked ones.
func (n *testTree) read(parked ...policy.EntryState) map[parsers.PodUID]*Answer {
	n.T.Helper()
	d := n.open()
	var all []Dir
	for _, e := range d.Names {
		all = append(all, n.Pod(d, e))
	}
	for _, e := range parked {
		all = append(all, n.Parked(d, e))
	}
	answers := map[parsers.PodUID]*Answer{}
	for i, a := range n.Read(n.T.Context(), d, all) {
		answers[all[i].UID] = a
	}
	return answers
}

// wantRead checks that a directory was read completely.
func wantRead(t *testing.T, a *Answer) {
	t.Helper()
	if f := a.Fact(); f.Truth != policy.Yes || a.Directory.Truth != policy.Yes || a.OwnMount.Truth != policy.No || a.Content.Unlisted != nil {
		t.Errorf("%+v, the directory %+v, its own mount %+v", f, a.Directory, a.OwnMount)
	}
}

func wantFact(t *testing.T, f policy.Fact, want policy.Truth, part string) {
	t.Helper()
	if wantDetail(t, f, part); f.Truth != want {
		t.Errorf("%+v, want %s", f, want)
	}
}

// rows returns the residue as "path class", in order.
func rows(a *Answer) string {
	var out []string
	for _, r := range a.Content.Rows {
		row := r.Path + " " + r.Class.String()
		if r.Partial {
			row += " partial"
		}
		out = append(out, row)
	}
	return strings.Join(out, ", ")
}

// statOf returns the statx of an open file.
func statOf(t *testing.T, f *os.File) unix.Statx_t {
	t.Helper()
	st, err := beneath.Stat(int(f.Fd()))
	must(t, err)
	return st
}
