package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAgreesAfterARestart checks that a look fails with the reason if the kubelet has restarted with another root:
// the previous pods directory is gone.
func TestAgreesAfterARestart(t *testing.T) {
	a := t.TempDir()
	procDir := testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=" + a}})
	p, err := New(Config{NodeRoot: t.TempDir(), ProcDir: procDir, RootDir: a, Clock: atNoon{}})
	must(t, err)
	if f := p.Agrees(t.Context()); f.Truth != policy.Yes {
		t.Fatalf("before: %+v", f)
	}
	must(t, os.RemoveAll(filepath.Join(procDir, "42")))
	if f := p.Agrees(t.Context()); f.Truth != policy.Yes {
		t.Errorf("without a kubelet: %+v", f)
	}
	testkit.AddProc(t, procDir, testkit.FakeProc{PID: 43, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/b"}})
	if f := p.Agrees(t.Context()); f.Truth != policy.No || !strings.Contains(f.Detail, "restart orphan-reaper") {
		t.Errorf("after: %+v", f)
	}
	if _, err := p.Look(t.Context(), nil, nil); !errors.Is(err, policy.ErrRootMoved) || !strings.Contains(err.Error(), "restart orphan-reaper") {
		t.Errorf("look without a pods directory: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(a, "pods"), 0o750))
	if _, err := p.Look(t.Context(), nil, nil); !errors.Is(err, policy.ErrRootMoved) {
		t.Errorf("look with a pods directory that is not the kubelet's: %v", err)
	}
	testkit.AddProc(t, procDir, testkit.FakeProc{PID: 44, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/c"}})
	if _, err := p.Look(t.Context(), nil, nil); errors.Is(err, policy.ErrRootMoved) {
		t.Errorf("with two kubelets: %v", err)
	}
}

// TestForeignCgroups checks that a cgroup hierarchy without any running pod proves nothing about the others: their
// cgroups may be elsewhere.
func TestForeignCgroups(t *testing.T) {
	n, runtime := runtimeNode(t)
	uid := newUID()
	n.Mkdir(n.PodDir(uid), "cgroup/kubepods/besteffort/pod"+string(newUID()), "cgroup/kubepods/besteffort/pod"+string(uidDone))
	// An operator who declares these namespaces to be the node's vouches for the cgroups, too.
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No}))
	n.cfg.NodeNamespacesSelf = false
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No, policy.FactCgroup: policy.Unknown}))
	wantDetail(t, n.one(uid).Facts[policy.FactCgroup], "the runtime runs 1 pod, and none has a cgroup there")

	n.Mkdir("cgroup/kubepods/burstable/pod" + string(uidLive))
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No}))

	// If the runtime runs nothing, only the default cgroup root counts.
	runtime.SetPods(fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job", NotReady: true, Exited: 1})
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No, policy.FactCgroup: policy.Unknown}))
}
