package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	uidA = parsers.PodUID("0a1b2c3d-0000-4000-8000-00000000000a")
	uidB = parsers.PodUID("0a1b2c3d-0000-4000-8000-00000000000b")
	// entryA is uidA's entry in quarantine.
	entryA = string(uidA) + ".1"
)

// tree is a kubelet's root made for one test, with canaries that its Cleanup counts.
type tree struct {
	t        testing.TB
	base     string // holds all of it
	root     string // the kubelet's root
	pods     string
	quar     string
	outside  string // where canaries live
	canaries []canary
	n        int
}

// canary is a file that must live. Behind a mount, the mount must live too, with its ID
// and at its place.
type canary struct {
	path, want string
	mountPoint string
	mountID    string
}

// newTree makes a kubelet's root with one pod, uidA, from specs of one line each, relative
// to the pod directory; parents are made as needed:
//
//	dir P | file P [SIZE] | hard P Q | link P [TARGET] | fifo P | sock P | dev P
//	bind P | bindfile P | tmpfs P | overlay P
//
// link without a target points to a directory with a canary. Each mount has a canary
// behind it. Others lie beside the tree. Its Cleanup fails the test if one is lost, or a
// descriptor is left open.
func newTree(tb testing.TB, specs ...string) *tree {
	tb.Helper()
	base, err := os.MkdirTemp("", "removal") //nolint:usetesting // its own Cleanup must unmount before it removes
	if err != nil {
		tb.Fatal(err)
	}
	return newTreeAt(tb, base, specs...)
}

func newTreeAt(tb testing.TB, base string, specs ...string) *tree {
	tb.Helper()
	tr := &tree{t: tb, base: base, root: base + "/kubelet", pods: base + "/kubelet/pods", quar: base + "/kubelet/orphan-reaper", outside: base + "/outside"}
	open := openFDs(tb)
	tb.Cleanup(func() {
		tr.check()
		if now := openFDs(tb); now > open {
			tb.Errorf("%d descriptors are open, %d were", now, open)
		}
		unmountBelow(tb, base)
		clearImmutable(base)
		if err := os.RemoveAll(base); err != nil {
			tb.Errorf("cannot clean up: %v", err)
		}
	})
	tr.mkdir(tr.pods)
	tr.mkdir(tr.outside)
	tr.canaryFile(tr.pods + "/" + string(uidB) + "/volumes/kubernetes.io~csi/db/mount/beside")
	tr.canaryFile(tr.root + "/beside")
	tr.canaryFile(base + "/beside")
	tr.pod(uidA, specs...)
	return tr
}

func (tr *tree) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) mkdir(path string) { tr.t.Helper(); tr.must(os.MkdirAll(path, 0o755)) }

func (tr *tree) canaryFile(path string) {
	tr.t.Helper()
	tr.mkdir(filepath.Dir(path))
	want := "alive in " + path
	tr.must(os.WriteFile(path, []byte(want), 0o644))
	tr.canaries = append(tr.canaries, canary{path: path, want: want})
}

// canaryDir makes a directory outside with canaries at two levels.
func (tr *tree) canaryDir() string {
	tr.t.Helper()
	tr.n++
	dir := fmt.Sprintf("%s/%d", tr.outside, tr.n)
	tr.canaryFile(dir + "/canary")
	tr.canaryFile(dir + "/sub/dir/canary")
	return dir
}

// pod adds a pod directory.
func (tr *tree) pod(uid parsers.PodUID, specs ...string) {
	tr.t.Helper()
	dir := tr.pods + "/" + string(uid)
	tr.mkdir(dir)
	tr.build(dir, specs...)
}

func (tr *tree) build(dir string, specs ...string) {
	tr.t.Helper()
	for _, spec := range specs {
		tr.one(dir, spec)
	}
}

func (tr *tree) one(dir, spec string) {
	tr.t.Helper()
	kind, rest, _ := strings.Cut(spec, " ")
	name, arg, hasArg := strings.Cut(rest, " ")
	path := dir + "/" + name
	tr.mkdir(filepath.Dir(path))
	switch kind {
	case "dir":
		tr.mkdir(path)
	case "file":
		size, _ := strconv.Atoi(arg)
		tr.must(os.WriteFile(path, make([]byte, size), 0o644))
	case "hard":
		tr.must(os.Link(dir+"/"+arg, path))
	case "link":
		if !hasArg {
			arg = tr.canaryDir()
		}
		tr.must(os.Symlink(arg, path))
	case "fifo":
		tr.must(unix.Mkfifo(path, 0o600))
	case "sock":
		tr.must(unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
	case "dev":
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
			testkit.Skip(tr.t, "no device node can be made: ", err)
		}
	default:
		tr.mount(kind, path)
	}
}

func (tr *tree) mount(kind, path string) {
	tr.t.Helper()
	var err error
	behind := path + "/canary"
	switch kind {
	case "bind":
		tr.mkdir(path)
		err = unix.Mount(tr.canaryDir(), path, "", unix.MS_BIND, "")
	case "bindfile":
		tr.must(os.WriteFile(path, nil, 0o644))
		behind = path
		err = unix.Mount(tr.canaryDir()+"/canary", path, "", unix.MS_BIND, "")
	case "tmpfs":
		tr.mkdir(path)
		if err = unix.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err == nil {
			tr.canaryFile(behind)
			tr.canaries = tr.canaries[:len(tr.canaries)-1]
		}
	case "overlay":
		tr.mkdir(path)
		// An overlay's upper cannot lie on an overlay, as all of a container does: a tmpfs has it.
		lower, over := tr.canaryDir(), tr.outside+"/over"
		tr.mkdir(over)
		if err = unix.Mount("tmpfs", over, "tmpfs", 0, ""); err != nil {
			break
		}
		tr.canaryFile(over + "/upper/above")
		tr.mkdir(over + "/work")
		err = unix.Mount("overlay", path, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, over+"/upper", over+"/work"))
	default:
		tr.t.Fatalf("no such spec: %s", kind)
	}
	if err != nil {
		testkit.Skip(tr.t, "nothing can be mounted: ", err)
	}
	tr.behindMount(path, behind)
}

// behindMount makes the file a canary together with the mount that it is reached by.
func (tr *tree) behindMount(mountPoint, file string) {
	tr.t.Helper()
	want, err := os.ReadFile(file)
	tr.must(err)
	c := canary{path: file, want: string(want), mountPoint: mountPoint, mountID: mountAt(tr.t, mountPoint)}
	if c.mountID == "" {
		tr.t.Fatalf("%s is not mounted", mountPoint)
	}
	tr.canaries = append(tr.canaries, c)
}

// lost returns the canaries that do not live.
func (tr *tree) lost() []string {
	tr.t.Helper()
	var lost []string
	for _, c := range tr.canaries {
		got, err := os.ReadFile(c.path)
		switch {
		case err != nil || string(got) != c.want:
			lost = append(lost, c.path)
		case c.mountPoint != "" && mountAt(tr.t, c.mountPoint) != c.mountID:
			lost = append(lost, c.mountPoint+" (mount)")
		}
	}
	return lost
}

func (tr *tree) check() {
	tr.t.Helper()
	for _, path := range tr.lost() {
		tr.t.Errorf("canary lost: %s", path)
	}
}

// mountAt returns the ID of the topmost mount at path, "" if there is none.
func mountAt(tb testing.TB, path string) string {
	tb.Helper()
	id := ""
	for _, m := range mounts(tb) {
		if m[1] == path {
			id = m[0]
		}
	}
	return id
}

// mounts returns ID and mount point of each mount of this namespace.
func mounts(tb testing.TB) [][2]string {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tb.Fatal(err)
	}
	var all [][2]string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		all = append(all, [2]string{f[0], f[4]})
	}
	return all
}

func unmountBelow(tb testing.TB, base string) {
	tb.Helper()
	all := mounts(tb)
	slices.Reverse(all)
	for _, m := range all {
		if m[1] == base || strings.HasPrefix(m[1], base+"/") {
			if err := unix.Unmount(strings.TrimSuffix(m[1], "//deleted"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				tb.Errorf("cannot unmount %s: %v", m[1], err)
			}
		}
	}
}

func openFDs(tb testing.TB) int {
	tb.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(names)
}

// open makes a Remover for the tree.
func (tr *tree) open(noOpenat2 bool) *Remover {
	tr.t.Helper()
	r, err := Open(Config{PodsDir: tr.pods, NoOpenat2: noOpenat2, Used: unused})
	tr.must(err)
	return r
}

// unused is a caller who sees nothing that uses a directory.
func unused(context.Context, parsers.PodUID, policy.Instant) policy.Fact {
	return policy.Fact{Truth: policy.No}
}

func idAt(tb testing.TB, path string) policy.DirID {
	tb.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		tb.Fatal(err)
	}
	return beneath.DirID(&st)
}

func (tr *tree) parkAction(uid parsers.PodUID) policy.Action {
	tr.t.Helper()
	return policy.Action{
		Kind: policy.Park, UID: uid, Entry: string(uid) + ".1", ID: idAt(tr.t, tr.pods+"/"+string(uid)),
		Manifest: []byte(`{"uid":"` + string(uid) + `"}`),
	}
}

func run(tb testing.TB, r *Remover, actions ...policy.Action) []policy.Outcome {
	tb.Helper()
	out := r.Execute(context.Background(), policy.Batch{Actions: actions})
	if len(out) != len(actions) {
		tb.Fatalf("%d outcomes for %d actions", len(out), len(actions))
	}
	return out
}

func run1(tb testing.TB, r *Remover, a policy.Action) policy.Outcome {
	tb.Helper()
	return run(tb, r, a)[0]
}

// parked parks uidA and returns the action that did it.
func (tr *tree) parked(r *Remover) policy.Action {
	tr.t.Helper()
	a := tr.parkAction(uidA)
	if o := run1(tr.t, r, a); o.Result != policy.Done {
		tr.t.Fatalf("not parked: %+v", o)
	}
	return a
}

func want(tb testing.TB, o policy.Outcome, result policy.Result, reason policy.Reason) {
	tb.Helper()
	if o.Result != result {
		tb.Fatalf("result %s, want %s: %+v %s", o.Result, result, o.Why, o.Err)
	}
	if reason != "" && (len(o.Why) == 0 || o.Why[0].Reason != reason || o.Err == "") {
		tb.Fatalf("why %+v (%s), want %s", o.Why, o.Err, reason)
	}
	if reason == "" && len(o.Why) != 0 {
		tb.Fatalf("unexpected why %+v", o.Why)
	}
}

func there(tb testing.TB, path string, yes bool) {
	tb.Helper()
	_, err := os.Lstat(path)
	if (err == nil) != yes {
		tb.Fatalf("%s is there: %v (%v), want %v", path, err == nil, err, yes)
	}
}

// listing returns all paths below dir but those below a mount point, sorted.
func listing(tb testing.TB, dir string) []string {
	tb.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			all = append(all, rel)
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	return all
}

const fsImmutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h

// immutable sets or clears chattr +i.
func immutable(path string, on bool) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= fsImmutable
	if on {
		flags |= fsImmutable
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func clearImmutable(base string) {
	_ = filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type().IsRegular()) {
			_ = immutable(path, false)
		}
		return nil
	})
}
