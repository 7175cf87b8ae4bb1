package openfiles

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var (
	must  = testkit.Must
	child = testkit.Shell
)

// node has pods in a temporary directory, and the machine's own processes.
type node struct {
	*Reader
	t   *testing.T
	dir string
	// partly has the walk of a pod end at its directory.
	partly bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	testkit.NeedProcesses(t)
	open, err := beneath.New(false)
	must(t, err)
	n := &node{t: t, dir: t.TempDir()}
	n.Reader = &Reader{
		ProcDir: "/proc", SysBlockDir: n.dir + "/block", DevDir: "/dev", Swaps: "/proc/swaps", SelfIsNode: true,
		Open: open, Guard: &bounded.Guard{Patience: 20 * time.Second},
	}
	n.mkdir("kubelet/pods", "kubelet/orphan-reaper")
	child(t, nil, "/", "") // so that a process can be read besides ourselves
	return n
}

// modes are the two ways to open: a test of what is opened runs in both.
var modes = map[string]func(t *testing.T) *node{
	"openat2": func(t *testing.T) *node {
		t.Helper()
		n := newNode(t)
		if n.Open.Fallback() != nil {
			testkit.Skip(t, "this needs openat2")
		}
		return n
	},
	"fallback": func(t *testing.T) *node {
		t.Helper()
		n := newNode(t)
		var err error
		n.Open, err = beneath.New(true)
		must(t, err)
		return n
	},
}

func (n *node) path(rel string) string { return filepath.Join(n.dir, rel) }

func (n *node) pod(uid parsers.PodUID) string { return "kubelet/pods/" + string(uid) }

func (n *node) mkdir(rels ...string) {
	n.t.Helper()
	for _, rel := range rels {
		must(n.t, os.MkdirAll(n.path(rel), 0o755))
	}
}

func (n *node) write(rel, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	must(n.t, os.WriteFile(n.path(rel), []byte(text), 0o600))
}

// bind mounts from at rel until the test ends.
func (n *node) bind(from, rel string) {
	n.t.Helper()
	must(n.t, unix.Mount(n.path(from), n.path(rel), "", unix.MS_BIND, ""))
	n.t.Cleanup(func() { _ = unix.Unmount(n.path(rel), unix.MNT_DETACH) })
}

// handle holds a directory until the test ends.
func (n *node) handle(rel string) *bounded.Handle {
	n.t.Helper()
	fd, err := unix.Open(n.path(rel), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(n.t, err)
	h := bounded.NewHandle(fd)
	n.t.Cleanup(h.Unref)
	return h
}

// all are the pods that have a directory, and those with an entry in quarantine.
func (n *node) all() parsers.PodSet {
	n.t.Helper()
	w := parsers.PodSet{}
	for _, dir := range []string{"kubelet/pods", "kubelet/orphan-reaper"} {
		entries, err := os.ReadDir(n.path(dir))
		must(n.t, err)
		for _, d := range entries {
			name, _, _ := strings.Cut(d.Name(), ".")
			w[parsers.PodUID(name)] = true
		}
	}
	return w
}

// read asks all that a look asks.
func (n *node) read() *Answer {
	n.t.Helper()
	a := n.Read(n.t.Context(), n.handle("kubelet/pods"), n.handle("kubelet/orphan-reaper"), n.all())
	n.Detached(n.t.Context(), a, n.mountIDs())
	return a
}

// mountIDs are those of all mounts that are somewhere.
func (n *node) mountIDs() []uint64 {
	n.t.Helper()
	r := mounts.Reader{ProcDir: n.ProcDir, RootDir: n.path("kubelet"), QuarantineDir: n.path("kubelet/orphan-reaper"), Open: n.Open, Guard: n.Guard}
	ids := r.Read(n.t.Context(), nil, nil).IDs
	slices.Sort(ids)
	return ids
}

// fact is the answer for a pod whose directory was walked.
func (n *node) fact(a *Answer, uid parsers.PodUID) policy.Fact {
	n.t.Helper()
	fd, err := unix.Open(n.path(n.pod(uid)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(n.t, err)
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	must(n.t, err)
	w := Walked{Dev: beneath.DevOf(&st), Whole: !n.partly}
	n.walk(fd, &w)
	return a.Fact(uid, &w)
}

// walk notes what lies in a directory, as the walk of a look does.
func (n *node) walk(fd int, w *Walked) {
	n.t.Helper()
	st, err := beneath.Stat(fd)
	must(n.t, err)
	w.Inodes = append(w.Inodes, st.Ino)
	if n.partly {
		return
	}
	entries, err := beneath.List(fd, 1000)
	must(n.t, err)
	for _, d := range entries {
		below, err := n.Open.Dir(fd, d.Name)
		if err == nil {
			n.walk(below, w)
			beneath.Close(below)
			continue
		}
		st, err := beneath.StatName(fd, d.Name)
		must(n.t, err)
		w.Inodes = append(w.Inodes, st.Ino)
	}
}

// want checks whether a pod's files are in use, and that the detail has a text in it.
func (n *node) want(a *Answer, uid parsers.PodUID, truth policy.Truth, detail string) {
	n.t.Helper()
	if f := n.fact(a, uid); f.Truth != truth || !strings.Contains(f.Detail, detail) {
		n.t.Errorf("in use is %s (%s), want %s with %q", f.Truth, f.Detail, truth, detail)
	}
}

// unused checks that nobody uses a pod's files.
func (n *node) unused(a *Answer, uid parsers.PodUID) {
	n.t.Helper()
	n.want(a, uid, policy.No, "")
}

// scan is a scan of the processes that is at its beginning.
func (n *node) scan(w ...parsers.PodUID) *scan {
	n.t.Helper()
	wanted := parsers.PodSet{}
	for _, uid := range w {
		wanted[uid] = true
	}
	proc, err := procfs.Open(n.ProcDir)
	must(n.t, err)
	n.t.Cleanup(func() { beneath.Close(proc) })
	return n.newScan(n.t.Context(), proc, n.handle("kubelet/pods"), nil, wanted)
}

func newUID() parsers.PodUID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return parsers.PodUID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func newStaticUID() parsers.PodUID {
	return parsers.PodUID(strings.ReplaceAll(string(newUID()), "-", ""))
}

// openTest opens a file until the test ends.
func openTest(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
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
