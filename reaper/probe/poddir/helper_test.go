package poddir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const goodVolData = `{"attachmentID":"csi-1","driverName":"ebs.csi.aws.com","nodeName":"n","specVolID":"pv-1","volumeHandle":"vol-1"}`

// testTree is the kubelet's directories in a temporary one.
type testTree struct {
	*Reader
	t   *testing.T
	dir string
}

func newTree(t *testing.T) *testTree {
	t.Helper()
	dir := t.TempDir()
	n := &testTree{t: t, dir: dir, Reader: &Reader{
		RootDir: dir + "/kubelet", QuarantineDir: dir + "/kubelet/orphan-reaper", DevicePlugins: dir + "/device-plugins",
		Guard: &bounded.Guard{Patience: 20 * time.Second},
	}}
	var err error
	n.Open, err = beneath.New(false)
	must(t, err)
	if n.Open.Fallback() != nil {
		if os.Getenv("REQUIRE_ROOT") == "1" {
			t.Fatal("needs openat2")
		}
		t.Skip("needs openat2")
	}
	n.mkdir("kubelet/pods")
	return n
}

// modes are the two ways to open: a test of what is opened runs in both.
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

func (n *testTree) path(rel string) string { return filepath.Join(n.dir, rel) }

func (n *testTree) pod(uid parsers.PodUID) string { return "kubelet/pods/" + string(uid) }

func (n *testTree) mkdir(rels ...string) {
	n.t.Helper()
	for _, rel := range rels {
		must(n.t, os.MkdirAll(n.path(rel), 0o755))
	}
}

func (n *testTree) write(rel, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	must(n.t, os.WriteFile(n.path(rel), []byte(text), 0o600))
}

func (n *testTree) symlink(target, rel string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	must(n.t, os.Symlink(target, n.path(rel)))
}

// open lists the pods directory until the test ends.
func (n *testTree) open() *Dirs {
	n.t.Helper()
	d, err := n.List(n.t.Context())
	must(n.t, err)
	n.t.Cleanup(d.Close)
	quarantine, csi := n.OpenBeside(n.t.Context(), d)
	must(n.t, errors.Join(quarantine, csi))
	return d
}

// read reads all pods, and the parked ones.
func (n *testTree) read(parked ...policy.EntryState) map[parsers.PodUID]*Answer {
	n.t.Helper()
	d := n.open()
	var all []Dir
	for _, e := range d.Names {
		all = append(all, n.Pod(d, e))
	}
	for _, e := range parked {
		all = append(all, n.Parked(d, e))
	}
	answers := map[parsers.PodUID]*Answer{}
	for i, a := range n.Read(n.t.Context(), d, all) {
		answers[all[i].UID] = a
	}
	return answers
}

// wantRead wants a directory that was read to its end.
func wantRead(t *testing.T, a *Answer) {
	t.Helper()
	if f := a.Fact(); f.Truth != policy.Yes || a.Directory.Truth != policy.Yes || a.OwnMount.Truth != policy.No || a.Content.Unlisted != nil {
		t.Errorf("%+v, the directory %+v, its own mount %+v", f, a.Directory, a.OwnMount)
	}
}

func wantDetail(t *testing.T, f policy.Fact, part string) {
	t.Helper()
	if !strings.Contains(f.Detail, part) {
		t.Errorf("the detail is %q, want %q in it", f.Detail, part)
	}
}

func wantFact(t *testing.T, f policy.Fact, want policy.Truth, part string) {
	t.Helper()
	if wantDetail(t, f, part); f.Truth != want {
		t.Errorf("%+v, want %s", f, want)
	}
}

// rows is the residue as "path class" in order.
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

func newUID() parsers.PodUID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return parsers.PodUID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func newStaticUID() parsers.PodUID {
	return parsers.PodUID(strings.ReplaceAll(string(newUID()), "-", ""))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openTest opens a file until the test ends.
func openTest(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

// statOf is what statx has of an open file.
func statOf(t *testing.T, f *os.File) unix.Statx_t {
	t.Helper()
	st, err := beneath.Stat(int(f.Fd()))
	must(t, err)
	return st
}

// stick leaves a goroutine behind that has begun the work of a key, until the test ends.
func stick(t *testing.T, g *bounded.Guard, key string) {
	t.Helper()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hang := func() struct{} { <-release; return struct{}{} }
	if _, err := bounded.Within(t.Context(), g, key, time.Nanosecond, hang); !errors.Is(err, bounded.ErrHangs) {
		t.Fatalf("%s is not free: %v", key, err)
	}
}
