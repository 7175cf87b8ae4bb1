package probe

import (
	"maps"
	"os"
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

var (
	newUID       = testkit.NewUID
	newStaticUID = testkit.NewStaticUID
	openTest     = testkit.Open
	wantDetail   = testkit.WantDetail
	must         = testkit.Must
	inNamespace  = testkit.InNamespace
)

// TestMain keeps the processes of the machine from these tests: an unreadable one would keep all pods.
func TestMain(m *testing.M) {
	testkit.Alone()
	os.Exit(m.Run())
}

// namespaceEnv is the name of the test that runs in a mount namespace of its own.
const namespaceEnv = "ORPHAN_REAPER_TEST_NAMESPACE"

// skipWithout skips the test if the machine lacks something.
func skipWithout(t *testing.T, what string, err error) {
	t.Helper()
	testkit.Skip(t, "this needs ", what, ": ", err)
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

// lonely is the first of the user IDs that only the test running as that user has.
const lonely = 1 << 30

// testNode is a node in a temporary directory, with the processes of these tests.
type testNode struct {
	testkit.Node
	cfg Config
	// fallback looks without openat2.
	fallback bool
	patience time.Duration
	most     int // counted entries of one directory; 0: the default
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	n := &testNode{Node: testkit.NewNode(t), patience: 20 * time.Second}
	n.cfg = Config{
		NodeRoot: n.Base, RootDir: n.Base + "/kubelet", RootDirSet: true, QuarantineDir: n.Base + "/kubelet/orphan-reaper", CgroupRoot: n.Base + "/cgroup",
		ProcDir: "/proc", Waive: true, RuntimeEndpoint: cri.EndpointNone,
		NodeNamespacesSelf: true, Clock: fixedClock{}, SysBlockDir: n.Base + "/block",
	}
	n.Mkdir("kubelet/pods", "cgroup/kubepods.slice")
	if os.Getuid() < lonely {
		testkit.NeedProcesses(t)
		child(t, nil, "/", "") // so that another process than this one can be read
	}
	return n
}

// runtimeNode returns a node with a runtime.
func runtimeNode(t *testing.T) (*testNode, *fakecri.Server) {
	t.Helper()
	n, s := newNode(t), startCRI(t)
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, s.Endpoint()
	return n, s
}

// mount mounts a tmpfs, or bind-mounts from if that is given.
func (n *testNode) mount(from, rel string) {
	n.T.Helper()
	var err error
	if from == "" {
		n.Mkdir(rel)
		err = unix.Mount("tmpfs", n.Path(rel), "tmpfs", 0, "size=64k")
	} else {
		err = unix.Mount(n.Path(from), n.Path(rel), "", unix.MS_BIND, "")
	}
	must(n.T, err)
	n.T.Cleanup(func() { _ = unix.Unmount(n.Path(rel), unix.MNT_DETACH) })
}

func (n *testNode) probe() *Probe {
	n.T.Helper()
	p, err := New(n.cfg)
	must(n.T, err)
	p.guard.Patience, p.dirs.Entries = n.patience, n.most
	if n.fallback {
		p.open, err = beneath.New(true)
		p.dirs.Open = p.open
		must(n.T, err)
	} else if p.open.Fallback() != nil {
		skipWithout(n.T, "openat2", unix.ENOSYS)
	}
	return p
}

func (n *testNode) look(parked ...policy.EntryState) policy.Look {
	n.T.Helper()
	look, err := n.probe().Look(n.T.Context(), parked, nil)
	must(n.T, err)
	return look
}

func (n *testNode) one(uid parsers.PodUID) policy.Evidence {
	n.T.Helper()
	return find(n.T, n.look(), uid)
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

// facts are the truths that a test expects, by fact name.
type facts map[policy.FactName]policy.Truth

func check(t *testing.T, e policy.Evidence, want facts) {
	t.Helper()
	for name, truth := range want {
		if f := e.Facts[name]; f.Truth != truth {
			t.Errorf("%s of %s is %s (%s), want %s", name, e.Name, f.Truth, f.Detail, truth)
		}
	}
}

// dead returns every fact of a pod of which only a directory exists.
func dead() facts {
	return facts{
		policy.FactDirectory: policy.Yes, policy.FactOwnMount: policy.No, policy.FactMounted: policy.No,
		policy.FactCgroup: policy.No, policy.FactStaged: policy.No,
		policy.FactInUse: policy.No, policy.FactContent: policy.Yes,
	}
}

// but returns dead with some facts replaced.
func but(changed facts) facts {
	f := dead()
	maps.Copy(f, changed)
	return f
}

// modes are the two ways to open files; a test of opened files runs in both.
var modes = map[string]func(t *testing.T) *testNode{
	"openat2": newNode,
	"fallback": func(t *testing.T) *testNode {
		t.Helper()
		n := newNode(t)
		n.fallback = true
		return n
	},
}

// child starts a shell that ends with the test.
var child = testkit.Shell
