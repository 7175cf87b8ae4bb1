package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// The pods of a Tree: a test acts on PodA. PodB holds a canary.
const (
	PodA = parsers.PodUID("0a1b2c3d-0000-4000-8000-00000000000a")
	PodB = parsers.PodUID("0a1b2c3d-0000-4000-8000-00000000000b")
)

// Tree is a kubelet's root made for one test, with canaries that its Cleanup checks.
type Tree struct {
	T        testing.TB
	Base     string // contains everything else
	Root     string // the kubelet's root
	Pods     string
	Quar     string
	Outside  string // holds canaries
	Canaries []Canary
	n        int
}

// Canary is a file that must not be removed. If it lies behind a mount, the mount must remain too, with its ID and place.
type Canary struct {
	path, want string
	MountPoint string
	mountID    string
}

// NewTree makes a kubelet's root with one pod, PodA, from specs of one line each, relative
// to the pod directory; parents are made as needed:
//
//	dir P | file P [SIZE] | hard P Q | link P [TARGET] | fifo P | sock P | dev P
//	bind P | bindfile P | tmpfs P | overlay P
//
// link without a target points to a directory with a canary. Each mount has a canary behind it. Others lie beside the tree.
// The Cleanup fails the test if a canary is lost or a descriptor is left open.
func NewTree(tb testing.TB, specs ...string) *Tree {
	tb.Helper()
	base, err := os.MkdirTemp("", "removal") //nolint:usetesting // its own Cleanup must unmount before it removes
	Must(tb, err)
	return NewTreeAt(tb, base, specs...)
}

// NewTreeAt is NewTree in base, which the Cleanup removes.
func NewTreeAt(tb testing.TB, base string, specs ...string) *Tree {
	tb.Helper()
	tr := &Tree{T: tb, Base: base, Root: base + "/kubelet", Pods: base + "/kubelet/pods", Quar: base + "/kubelet/orphan-reaper", Outside: base + "/outside"}
	if r, w, err := os.Pipe(); err == nil { // the runtime opens its poller with the first pipe
		_ = r.Close()
		_ = w.Close()
	}
	open := OpenFDs(tb)
	tb.Cleanup(func() {
		tr.Check()
		if now := OpenFDs(tb); now > open && !tb.Skipped() {
			tb.Errorf("%d descriptors are open, %d were", now, open)
		}
		UnmountBelow(tb, base)
		clearImmutable(base)
		if err := os.RemoveAll(base); err != nil {
			tb.Errorf("cannot clean up: %v", err)
		}
	})
	tr.Mkdir(tr.Pods)
	tr.Mkdir(tr.Outside)
	tr.Canary(tr.Pods + "/" + string(PodB) + "/volumes/kubernetes.io~csi/db/mount/beside")
	tr.Canary(tr.Root + "/beside")
	tr.Canary(base + "/beside")
	tr.Pod(PodA, specs...)
	return tr
}

// Must ends the test where there is an error.
func (tr *Tree) Must(err error) {
	tr.T.Helper()
	if err != nil {
		tr.T.Fatal(err)
	}
}

// Mkdir makes a directory and its parents.
func (tr *Tree) Mkdir(path string) { tr.T.Helper(); tr.Must(os.MkdirAll(path, 0o755)) }

// Canary adds a canary.
func (tr *Tree) Canary(path string) {
	tr.T.Helper()
	tr.Mkdir(filepath.Dir(path))
	want := "alive in " + path
	tr.Must(os.WriteFile(path, []byte(want), 0o644))
	tr.Canaries = append(tr.Canaries, Canary{path: path, want: want})
}

// CanaryDir makes a directory outside with canaries at two levels.
func (tr *Tree) CanaryDir() string {
	tr.T.Helper()
	tr.n++
	dir := fmt.Sprintf("%s/%d", tr.Outside, tr.n)
	tr.Canary(dir + "/canary")
	tr.Canary(dir + "/sub/dir/canary")
	return dir
}

// Pod adds a pod directory.
func (tr *Tree) Pod(uid parsers.PodUID, specs ...string) {
	tr.T.Helper()
	dir := tr.Pods + "/" + string(uid)
	tr.Mkdir(dir)
	tr.Build(dir, specs...)
}

// Build makes the specs' files in dir.
func (tr *Tree) Build(dir string, specs ...string) {
	tr.T.Helper()
	for _, spec := range specs {
		tr.One(dir, spec)
	}
}

// One makes the file of one spec.
func (tr *Tree) One(dir, spec string) {
	tr.T.Helper()
	kind, rest, _ := strings.Cut(spec, " ")
	name, arg, hasArg := strings.Cut(rest, " ")
	path := dir + "/" + name
	tr.Mkdir(filepath.Dir(path))
	switch kind {
	case "dir":
		tr.Mkdir(path)
	case "file":
		size, _ := strconv.Atoi(arg)
		tr.Must(os.WriteFile(path, make([]byte, size), 0o644))
	case "hard":
		tr.Must(os.Link(dir+"/"+arg, path))
	case "link":
		if !hasArg {
			arg = tr.CanaryDir()
		}
		tr.Must(os.Symlink(arg, path))
	case "fifo":
		tr.Must(unix.Mkfifo(path, 0o600))
	case "sock":
		tr.Must(unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
	case "dev":
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
			Skip(tr.T, "no device node can be made: ", err)
		}
	default:
		tr.Mount(kind, path)
	}
}

// Mount makes a mount of this kind at the path, and a canary behind it.
func (tr *Tree) Mount(kind, path string) {
	tr.T.Helper()
	var err error
	behind := path + "/canary"
	switch kind {
	case "bind":
		tr.Mkdir(path)
		err = unix.Mount(tr.CanaryDir(), path, "", unix.MS_BIND, "")
	case "bindfile":
		tr.Must(os.WriteFile(path, nil, 0o644))
		behind = path
		err = unix.Mount(tr.CanaryDir()+"/canary", path, "", unix.MS_BIND, "")
	case "tmpfs":
		tr.Mkdir(path)
		if err = unix.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err == nil {
			tr.Canary(behind)
			tr.Canaries = tr.Canaries[:len(tr.Canaries)-1]
		}
	case "overlay":
		tr.Mkdir(path)
		// The upper directory of an overlay cannot lie on an overlay, as it would in a container: it is on a tmpfs.
		lower, over := tr.CanaryDir(), tr.Outside+"/over"
		tr.Mkdir(over)
		if err = unix.Mount("tmpfs", over, "tmpfs", 0, ""); err != nil {
			break
		}
		tr.Canary(over + "/upper/above")
		tr.Mkdir(over + "/work")
		err = unix.Mount("overlay", path, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, over+"/upper", over+"/work"))
	default:
		tr.T.Fatalf("no such spec: %s", kind)
	}
	if err != nil {
		Skip(tr.T, "nothing can be mounted: ", err)
	}
	tr.behindMount(path, behind)
}

// behindMount adds a canary for the file and the mount that it lies behind.
func (tr *Tree) behindMount(mountPoint, file string) {
	tr.T.Helper()
	want, err := os.ReadFile(file)
	tr.Must(err)
	c := Canary{path: file, want: string(want), MountPoint: mountPoint, mountID: MountAt(tr.T, mountPoint)}
	if c.mountID == "" {
		tr.T.Fatalf("%s is not mounted", mountPoint)
	}
	tr.Canaries = append(tr.Canaries, c)
}

// Unmounted drops the canaries of a mount that the test has unmounted.
func (tr *Tree) Unmounted(mountPoint string) {
	tr.Canaries = slices.DeleteFunc(tr.Canaries, func(c Canary) bool { return c.MountPoint == mountPoint })
}

// Lost returns the canaries that were removed or changed.
func (tr *Tree) Lost() []string {
	tr.T.Helper()
	var lost []string
	for _, c := range tr.Canaries {
		got, err := os.ReadFile(c.path)
		switch {
		case err != nil || string(got) != c.want:
			lost = append(lost, c.path)
		case c.MountPoint != "" && MountAt(tr.T, c.MountPoint) != c.mountID:
			lost = append(lost, c.MountPoint+" (mount)")
		}
	}
	return lost
}

// Check fails the test if a canary is lost.
func (tr *Tree) Check() {
	tr.T.Helper()
	for _, path := range tr.Lost() {
		tr.T.Errorf("canary lost: %s", path)
	}
}

// Moved adjusts the paths of canaries that the test has moved.
func (tr *Tree) Moved(from, to string) {
	for i := range tr.Canaries {
		c := &tr.Canaries[i]
		if rest, ok := strings.CutPrefix(c.path, from); ok {
			c.path = to + rest
		}
	}
}
