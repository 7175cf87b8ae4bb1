package openfiles

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var (
	newUID       = testkit.NewUID
	newStaticUID = testkit.NewStaticUID
	openTest     = testkit.Open
	stick        = testkit.Stick
)

var (
	must  = testkit.Must
	child = testkit.Shell
)

// TestMain keeps the processes of the machine from these tests: an unreadable one would keep all pods.
func TestMain(m *testing.M) {
	testkit.Alone()
	os.Exit(m.Run())
}

// node has pods in a temporary directory, and the processes of these tests.
type node struct {
	*Reader
	testkit.Node
}

func newNode(t *testing.T) *node {
	t.Helper()
	testkit.NeedProcesses(t)
	open, err := beneath.New(false)
	must(t, err)
	n := &node{Node: testkit.NewNode(t)}
	n.Reader = &Reader{
		ProcDir: "/proc", SysBlockDir: n.Base + "/block", DevDir: "/dev", SelfIsNode: true,
		Open: open, Guard: &bounded.Guard{Patience: 2 * time.Minute},
	}
	n.Mkdir("kubelet/pods", "kubelet/orphan-reaper")
	child(t, nil, "/", "") // so that another process than this one can be read
	return n
}

// modes are the two ways to open files; a test of opened files runs in both.
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

// bind bind-mounts from at rel until the test ends.
func (n *node) bind(from, rel string) {
	n.T.Helper()
	testkit.Mount(n.T, n.Path(from), n.Path(rel), "", unix.MS_BIND, "")
}

// handle holds a directory until the test ends.
func (n *node) handle(rel string) *bounded.Handle {
	n.T.Helper()
	fd, err := unix.Open(n.Path(rel), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(n.T, err)
	h := bounded.NewHandle(fd)
	n.T.Cleanup(h.Unref)
	return h
}

// all returns the pods that have a directory or an entry in quarantine.
func (n *node) all() parsers.PodSet {
	n.T.Helper()
	w := parsers.PodSet{}
	for _, dir := range []string{"kubelet/pods", "kubelet/orphan-reaper"} {
		entries, err := os.ReadDir(n.Path(dir))
		must(n.T, err)
		for _, d := range entries {
			name, _, _ := strings.Cut(d.Name(), ".")
			w[parsers.PodUID(name)] = true
		}
	}
	return w
}

// read reads everything that a look reads.
func (n *node) read() *Answer {
	n.T.Helper()
	return n.Read(n.T.Context(), n.handle("kubelet/pods"), n.handle("kubelet/orphan-reaper"), n.all())
}

// fact returns the fact of a pod whose directory was walked.
func (n *node) fact(a *Answer, uid parsers.PodUID) policy.Fact {
	n.T.Helper()
	fd, err := unix.Open(n.Path(n.PodDir(uid)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(n.T, err)
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	must(n.T, err)
	w := Walked{Dev: beneath.DevOf(&st)}
	n.walk(n.Open.At(fd), &w)
	return a.Fact(uid, &w)
}

// walk collects the inodes of a directory, like the walk of a look.
func (n *node) walk(dir *beneath.Dir, w *Walked) {
	n.T.Helper()
	st, err := dir.Stat()
	must(n.T, err)
	w.Inodes = append(w.Inodes, st.Ino)
	entries, err := beneath.List(dir.FD(), 1000)
	must(n.T, err)
	for _, d := range entries {
		below, err := dir.Walk(d.Name)
		if err == nil {
			n.walk(below, w)
			below.Close()
			continue
		}
		st, err := dir.StatName(d.Name)
		must(n.T, err)
		w.Inodes = append(w.Inodes, st.Ino)
	}
}

// want checks whether a pod's files are in use, and that the detail contains a text.
func (n *node) want(a *Answer, uid parsers.PodUID, truth policy.Truth, detail string) {
	n.T.Helper()
	if f := n.fact(a, uid); f.Truth != truth || !strings.Contains(f.Detail, detail) {
		n.T.Errorf("in use is %s (%s), want %s with %q", f.Truth, f.Detail, truth, detail)
	}
}

// unused checks that a pod's files are not used.
func (n *node) unused(a *Answer, uid parsers.PodUID) {
	n.T.Helper()
	n.want(a, uid, policy.No, "")
}

// scan returns a new scan of the processes.
func (n *node) scan(w ...parsers.PodUID) *scan {
	n.T.Helper()
	wanted := parsers.PodSet{}
	for _, uid := range w {
		wanted[uid] = true
	}
	proc, err := procfs.Open(n.ProcDir)
	must(n.T, err)
	n.T.Cleanup(func() { beneath.Close(proc) })
	return n.newScan(n.T.Context(), proc, n.handle("kubelet/pods"), nil, wanted)
}
