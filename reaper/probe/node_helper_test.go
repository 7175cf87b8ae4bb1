package probe

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// namespaceEnv names the test that runs in a mount namespace of its own.
const namespaceEnv = "ORPHAN_REAPER_TEST_NAMESPACE"

// inNamespace says whether this is the copy of the test binary that has a mount namespace
// of its own (and, without root, a user namespace), where the test may mount: all of it
// ends with it. Elsewhere it runs that copy, and the test is to return.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Unshareflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		skipWithout(t, "a mount namespace", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("in a mount namespace: %v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "--- PASS: "+t.Name()) && !strings.Contains(out.String(), "--- SKIP: "+t.Name()) {
		t.Fatalf("the test did not run in its mount namespace:\n%s", out.String())
	}
	return false
}

// skipWithout skips where the machine lacks something, unless CI says that it must not.
func skipWithout(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_ROOT") == "1" {
		t.Fatalf("needs %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		skipWithout(t, "root", unix.EPERM)
	}
}

type fixedClock struct{}

func (fixedClock) Now() policy.Instant {
	return policy.Instant{Wall: time.Unix(1_700_000_000, 0), BootID: "boot", Boot: time.Hour}
}

// lonely is the first of the users that no process has but the test that runs as one.
const lonely = 1 << 30

// testNode is a node in a temporary directory, with the machine's own processes.
type testNode struct {
	t   *testing.T
	dir string
	cfg Config
	// fallback looks without openat2.
	fallback bool
	patience time.Duration
	most     int // entries of one directory that are counted; 0 is the usual number
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	n := &testNode{t: t, dir: t.TempDir(), patience: 20 * time.Second}
	n.cfg = Config{
		NodeRoot: n.dir, RootDir: n.dir + "/kubelet", RootDirSet: true, QuarantineDir: n.dir + "/kubelet/orphan-reaper", CgroupRoot: n.dir + "/cgroup",
		ProcDir: "/proc", LogPodsDir: n.dir + "/logs", DevicePlugins: n.dir + "/device-plugins", Waive: true, RuntimeEndpoint: cri.EndpointNone,
		NodeNamespacesSelf: true, Clock: fixedClock{}, SysBlockDir: n.dir + "/block",
	}
	n.mkdir("kubelet/pods", "cgroup/kubepods.slice", "logs")
	if os.Getuid() < lonely {
		testkit.NeedProcesses(t)
		child(t, nil, "/", "") // so that a process can be read besides ourselves
	}
	return n
}

// runtimeNode is a node with a runtime.
func runtimeNode(t *testing.T) (*testNode, *fakecri.Server) {
	t.Helper()
	n := newNode(t)
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), fakecri.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, s.Endpoint()
	return n, s
}

func (n *testNode) path(rel string) string { return filepath.Join(n.dir, rel) }

func (n *testNode) mkdir(rels ...string) {
	n.t.Helper()
	for _, rel := range rels {
		must(n.t, os.MkdirAll(n.path(rel), 0o755))
	}
}

func (n *testNode) write(rel, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	must(n.t, os.WriteFile(n.path(rel), []byte(text), 0o600))
}

func (n *testNode) symlink(target, rel string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	must(n.t, os.Symlink(target, n.path(rel)))
}

// mount mounts a tmpfs, or binds from where that is given.
func (n *testNode) mount(from, rel string) {
	n.t.Helper()
	var err error
	if from == "" {
		n.mkdir(rel)
		err = unix.Mount("tmpfs", n.path(rel), "tmpfs", 0, "size=64k")
	} else {
		err = unix.Mount(n.path(from), n.path(rel), "", unix.MS_BIND, "")
	}
	must(n.t, err)
	n.t.Cleanup(func() { _ = unix.Unmount(n.path(rel), unix.MNT_DETACH) })
}

func (n *testNode) pod(uid parsers.PodUID) string { return "kubelet/pods/" + string(uid) }

func (n *testNode) probe() *Probe {
	n.t.Helper()
	p, err := New(n.cfg)
	must(n.t, err)
	p.guard.Patience, p.dirs.Entries = n.patience, n.most
	if n.fallback {
		p.open, err = beneath.New(true)
		p.mounts.Open, p.dirs.Open = p.open, p.open
		must(n.t, err)
	} else if p.open.Fallback() != nil {
		skipWithout(n.t, "openat2", unix.ENOSYS)
	}
	return p
}

func (n *testNode) look(parked ...policy.EntryState) policy.Look {
	n.t.Helper()
	look, err := n.probe().Look(n.t.Context(), parked, nil)
	must(n.t, err)
	return look
}

func (n *testNode) one(uid parsers.PodUID) policy.Evidence {
	n.t.Helper()
	return find(n.t, n.look(), uid)
}

func find(t *testing.T, look policy.Look, uid parsers.PodUID) policy.Evidence {
	t.Helper()
	for _, e := range look.Pods {
		if e.UID == uid {
			return e
		}
	}
	t.Fatalf("the look has no pod %s, but %d others", uid, len(look.Pods))
	return policy.Evidence{}
}

// facts are what a test expects, by name.
type facts map[policy.FactName]policy.Truth

func check(t *testing.T, e policy.Evidence, want facts) {
	t.Helper()
	for name, truth := range want {
		if f := e.Facts[name]; f.Truth != truth {
			t.Errorf("%s of %s is %s (%s), want %s", name, e.Name, f.Truth, f.Detail, truth)
		}
	}
}

func wantDetail(t *testing.T, f policy.Fact, part string) {
	t.Helper()
	if !strings.Contains(f.Detail, part) {
		t.Errorf("the detail is %q, want %q in it", f.Detail, part)
	}
}

// dead is every fact of a pod that only left a directory behind.
func dead() facts {
	return facts{
		policy.FactDirectory: policy.Yes, policy.FactOwnMount: policy.No, policy.FactMounted: policy.No,
		policy.FactCgroup: policy.No, policy.FactKubeletFile: policy.No, policy.FactStaged: policy.No,
		policy.FactInUse: policy.No, policy.FactContent: policy.Yes,
	}
}

// but is dead with some facts replaced.
func but(changed facts) facts {
	f := dead()
	maps.Copy(f, changed)
	return f
}

func newUID() parsers.PodUID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	uid, _ := parsers.ParsePodUID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
	return uid
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

// modes are the two ways to open: a test of what is opened runs in both.
var modes = map[string]func(t *testing.T) *testNode{
	"openat2": newNode,
	"fallback": func(t *testing.T) *testNode {
		t.Helper()
		n := newNode(t)
		n.fallback = true
		return n
	},
}

// child starts a shell, which is gone when the test is.
var child = testkit.Shell

// openTest opens a file until the test ends.
func openTest(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}
