package node

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/program"
)

var must = testkit.Must

// kubeletEnv makes this test binary a kubelet, which does nothing and ends with its input.
const kubeletEnv = "ORPHAN_REAPER_TEST_KUBELET"

// TestMain runs the tests in PID and mount namespaces of their own.
func TestMain(m *testing.M) {
	if os.Getenv(kubeletEnv) != "" {
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	nodetest.Main(program.Main)
	if os.Getenv(wholeEnv) != "" {
		printWhole()
		return
	}
	if text := os.Getenv(seesEnv); text != "" {
		printSees(text)
		return
	}
	testkit.Alone()
	os.Exit(m.Run())
}

// testNode is a node in a temporary directory, with the processes of these tests.
type testNode struct {
	dir string
	cfg Config
	t   testing.TB
}

func newNode(tb testing.TB) *testNode {
	tb.Helper()
	n := &testNode{dir: tb.TempDir(), t: tb}
	n.cfg = Config{
		RootDir: n.dir + "/kubelet", Cgroups: n.dir + "/cgroup", Sockets: []string{n.dir + "/none.sock"}, Journals: []string{}, RKE2Log: n.dir + "/none", Clock: fixedClock{}, Logger: slog.New(slog.DiscardHandler),
	}
	n.mkdir("kubelet/pods", "kubelet/orphan-reaper", "kubelet/"+csiDir, "cgroup/kubepods.slice")
	return n
}

func (n *testNode) mkdir(paths ...string) {
	n.t.Helper()
	for _, p := range paths {
		must(n.t, os.MkdirAll(filepath.Join(n.dir, p), 0o755))
	}
}

func (n *testNode) write(path, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(path))
	must(n.t, os.WriteFile(filepath.Join(n.dir, path), []byte(text), 0o600))
}

// pod makes a pod directory as a kubelet leaves it, and returns its UID.
func (n *testNode) pod() parsers.PodUID {
	n.t.Helper()
	uid := testkit.NewUID()
	at := "kubelet/pods/" + string(uid)
	n.mkdir(at+"/volumes/kubernetes.io~empty-dir/tmp", at+"/plugins/kubernetes.io~empty-dir/wrapped_token", at+"/containers/app")
	n.write(at+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\nfe00::2\tip6-allrouters\n10.0.0.1\tweb-0\n")
	n.write(at+"/containers/app/0123abcd", "")
	return uid
}

func (n *testNode) scanner() *Scanner {
	n.t.Helper()
	s, err := New(n.cfg)
	must(n.t, err)
	return s
}

func (n *testNode) scan(also ...parsers.PodUID) judge.Snapshot {
	n.t.Helper()
	return n.scanner().Scan(n.t.Context(), nil, also)
}

// fact scans and returns one fact about the pod.
func (n *testNode) fact(uid parsers.PodUID, name judge.FactName) judge.Fact {
	n.t.Helper()
	s := n.scan()
	p, ok := s.Pod(uid)
	if !ok {
		n.t.Fatalf("the snapshot has no pod %s", uid)
	}
	return p.Facts[name]
}

// kubelet starts a kubelet with arguments, and returns its PID.
func (n *testNode) kubelet(stderr *os.File, args ...string) int {
	n.t.Helper()
	self, err := os.Executable()
	must(n.t, err)
	link := filepath.Join(n.t.TempDir(), "kubelet")
	must(n.t, os.Symlink(self, link))
	cmd := exec.Command(link, args...)
	cmd.Stderr, cmd.Env = stderr, append(os.Environ(), kubeletEnv+"=1")
	return started(n.t, cmd)
}

// started starts a command that prints a line when it is ready, and ends with its input. It returns the PID.
func started(tb testing.TB, cmd *exec.Cmd) int {
	tb.Helper()
	in, err := cmd.StdinPipe()
	must(tb, err)
	out, err := cmd.StdoutPipe()
	must(tb, err)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	must(tb, cmd.Start())
	tb.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		testkit.Skip(tb, "cannot start ", cmd, ": ", line, err)
	}
	return cmd.Process.Pid
}

// shell starts a shell script in new namespaces (unshare's flags), which goes on until the test ends.
func shell(tb testing.TB, flags, script string) int {
	tb.Helper()
	return started(tb, exec.Command("unshare", append(strings.Fields(flags), "sh", "-ec", script+"\necho ready; exec cat")...))
}

// wantFact compares truth and Alive, and searches the detail.
func wantFact(tb testing.TB, got judge.Fact, truth judge.Truth, alive bool, detail string) {
	tb.Helper()
	if got.Truth != truth || got.Alive != alive || !strings.Contains(got.Detail, detail) {
		tb.Errorf("got %+v, want %v, alive %v, %q", got, truth, alive, detail)
	}
}

type fixedClock struct{}

func (fixedClock) Now() judge.Instant {
	return judge.Instant{Wall: time.Unix(1_700_000_000, 0), BootID: "boot", Boot: time.Hour}
}

const forever = time.Hour
