package probe

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// socketAt makes a socket that lasts as long as the test.
func socketAt(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestAgrees(t *testing.T) {
	dir := t.TempDir()
	path := func(rel string) string { return filepath.Join(dir, rel) }
	url := func(rel string) string { return "unix://" + path(rel) }
	socketAt(t, path("run/c.sock"))
	socketAt(t, path("run/other.sock"))
	must(t, os.MkdirAll(path("run/down"), 0o700))
	must(t, os.MkdirAll(path("a"), 0o700))
	must(t, os.Symlink("run", path("var-run")))
	must(t, os.Symlink("a", path("link")))
	config := writeText(t, path("config.yaml"), "containerRuntimeEndpoint: "+url("run/c.sock")+"\n")
	tree := path("tree")
	must(t, os.MkdirAll(filepath.Join(tree, path("a")), 0o700))
	must(t, os.MkdirAll(filepath.Join(tree, "its/own"), 0o700))
	socketAt(t, filepath.Join(tree, "c.sock"))

	kubelet := func(pid int, args ...string) fakeProc {
		return fakeProc{pid: pid, comm: "kubelet", args: append([]string{"kubelet"}, args...)}
	}
	apart := func(p fakeProc) fakeProc {
		p.root = tree
		return p
	}
	a, b := kubelet(42, "--root-dir="+path("a")), kubelet(43, "--root-dir="+path("b"))
	with := func(endpoint string) fakeProc {
		return kubelet(42, "--root-dir="+path("a"), "--container-runtime-endpoint="+endpoint)
	}
	for _, c := range []struct {
		name     string
		procs    []fakeProc
		root     string // of the operator; "" is a, found at the start
		endpoint string // of the operator; "" is auto
		want     policy.Truth
		words    string
	}{
		{"nothing set, no kubelet", nil, "", "", policy.Yes, "no kubelet runs"},
		{"nothing set, one kubelet", []fakeProc{a}, "", "", policy.Yes, "PID 42"},
		{"root set, no kubelet", nil, path("x"), "", policy.Yes, "no kubelet runs"},
		{"root set and right", []fakeProc{a}, path("a"), "", policy.Yes, "PID 42"},
		{"root set and right, by a symlink", []fakeProc{a}, path("link"), "", policy.Yes, "PID 42"},
		{"root set, and only another runs", []fakeProc{b}, path("a"), "", policy.No, "--root-dir is " + path("a") + ", and the kubelet that runs has another: kubelet, PID 43, root directory " + path("b")},
		{"root set, one of two", []fakeProc{a, b}, path("a"), "", policy.Yes, "PID 42"},
		{"root set, none of two", []fakeProc{a, b}, path("x"), "", policy.No, "PID 42, root directory " + path("a") + "; kubelet, PID 43"},
		{"two kubelets, none named", []fakeProc{a, b}, "", "", policy.No, "set --root-dir to"},
		{"two other kubelets, none named", []fakeProc{b, kubelet(44, "--root-dir=/c")}, "", "", policy.No, "several kubelets run"},
		{"restarted with another root", []fakeProc{b}, "", "", policy.No, "restart orphan-reaper"},
		{"its root cannot be told", []fakeProc{a, kubelet(43, "--root-dir=rel")}, "", "", policy.Unknown, "set --root-dir"},
		{"its root cannot be told, root set", []fakeProc{a, kubelet(43, "--root-dir=rel")}, path("a"), "", policy.Unknown, "agrees with --root-dir"},
		{"k3s hides its root", []fakeProc{{pid: 42, comm: "k3s-server", raw: "/usr/local/bin/k3s server\x00\x00"}}, path("a"), "", policy.Unknown, "kubelet-arg: [root-dir=" + path("a") + "]"},
		{"another tree, another directory", []fakeProc{apart(a)}, "", "", policy.No, "a mount namespace of its own"},
		{"another tree, the same directory elsewhere", []fakeProc{apart(kubelet(42, "--root-dir=/its/own"))}, tree + "/its/own", "", policy.Yes, "PID 42"},

		{"endpoint set, no kubelet", nil, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"endpoint set, kubelet told none", []fakeProc{a}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same", []fakeProc{with(url("run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same as a bare path", []fakeProc{with(path("run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same through a symlink", []fakeProc{with(url("var-run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same, and down", []fakeProc{with(url("run/down/c.sock"))}, path("a"), url("run/down/c.sock"), policy.Yes, ""},
		{"the same through a symlink, and down", []fakeProc{with(url("var-run/down/c.sock"))}, path("a"), url("run/down/c.sock"), policy.Yes, ""},
		{"another", []fakeProc{with(url("run/c.sock"))}, path("a"), url("run/other.sock"), policy.No, "--runtime-endpoint is " + url("run/other.sock") + ", and the kubelet (PID 42) uses " + url("run/c.sock")},
		{"another, with the root found", []fakeProc{with(url("run/c.sock"))}, "", url("run/other.sock"), policy.No, "leave --runtime-endpoint out"},
		{"another in the file", []fakeProc{kubelet(42, "--root-dir="+path("a"), "--config="+config)}, path("a"), url("run/other.sock"), policy.No, url("run/c.sock")},
		{"one that is not there", []fakeProc{with(url("run/c.sock"))}, path("a"), url("none.sock"), policy.No, url("run/c.sock")},
		{"no socket of this machine", []fakeProc{with("tcp://1.2.3.4:5")}, path("a"), url("run/c.sock"), policy.No, "tcp://1.2.3.4:5"},
		{"its file cannot be read", []fakeProc{kubelet(42, "--root-dir="+path("a"), "--config=/nonexistent/c.yaml")}, path("a"), url("run/c.sock"), policy.Unknown, "can be read"},
		{"its file cannot be read, nothing set", []fakeProc{kubelet(42, "--root-dir="+path("a"), "--config=/nonexistent/c.yaml")}, path("a"), "", policy.Yes, ""},
		{"another tree, another socket of that name", []fakeProc{apart(kubelet(42, "--root-dir=/its/own", "--container-runtime-endpoint="+url("run/c.sock")))}, tree + "/its/own", url("run/c.sock"), policy.No, "uses"},
		{"another tree, the same socket elsewhere", []fakeProc{apart(kubelet(42, "--root-dir=/its/own", "--container-runtime-endpoint=unix:///c.sock"))}, tree + "/its/own", "unix://" + tree + "/c.sock", policy.Yes, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{ProcDir: procTree(t, c.procs...), RootDir: path("a"), RuntimeEndpoint: c.endpoint, Clock: atNoon{}}
			if c.root != "" {
				cfg.RootDir, cfg.RootDirSet = c.root, true
			}
			p, err := New(cfg)
			must(t, err)
			f := p.Agrees(t.Context())
			if f.Truth != c.want || !strings.Contains(f.Detail, c.words) || f.Detail == "" || f.Origin == "" {
				t.Errorf("%+v, want %s with %q", f, c.want, c.words)
			}
			p.cfg.Waive = true
			if f := p.Agrees(t.Context()); f.Truth != policy.Yes {
				t.Errorf("waived: %+v", f)
			}
		})
	}
}

// TestAgreesAfterARestart: one probe, and a kubelet that comes back with another root. The
// directory that it had is gone, so the look fails; the error says why.
func TestAgreesAfterARestart(t *testing.T) {
	a := t.TempDir()
	procDir := procTree(t, fakeProc{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=" + a}})
	p, err := New(Config{NodeRoot: t.TempDir(), ProcDir: procDir, RootDir: a, Clock: atNoon{}})
	must(t, err)
	if f := p.Agrees(t.Context()); f.Truth != policy.Yes {
		t.Fatalf("before: %+v", f)
	}
	must(t, os.RemoveAll(filepath.Join(procDir, "42")))
	if f := p.Agrees(t.Context()); f.Truth != policy.Yes {
		t.Errorf("while none runs: %+v", f)
	}
	addProc(t, procDir, fakeProc{pid: 43, comm: "kubelet", args: []string{"kubelet", "--root-dir=/b"}})
	if f := p.Agrees(t.Context()); f.Truth != policy.No || !strings.Contains(f.Detail, "restart orphan-reaper") {
		t.Errorf("after: %+v", f)
	}
	if _, err := p.Look(t.Context(), nil, nil); !errors.Is(err, policy.ErrRootMoved) || !strings.Contains(err.Error(), "restart orphan-reaper") {
		t.Errorf("a look without a pods directory: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(a, "pods"), 0o750))
	if _, err := p.Look(t.Context(), nil, nil); !errors.Is(err, policy.ErrRootMoved) {
		t.Errorf("a look at a pods directory that is not the kubelet's: %v", err)
	}
	addProc(t, procDir, fakeProc{pid: 44, comm: "kubelet", args: []string{"kubelet", "--root-dir=/c"}})
	if _, err := p.Look(t.Context(), nil, nil); errors.Is(err, policy.ErrRootMoved) {
		t.Errorf("with two kubelets a new start finds neither: %v", err)
	}
}

// TestForeignCgroups: a hierarchy in which none of the running pods has its cgroup proves
// nothing, and a living pod's cgroup was looked for in vain.
func TestForeignCgroups(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.mkdir(n.pod(uid), "cgroup/kubepods/besteffort/pod"+string(newUID()), "cgroup/kubepods/besteffort/pod"+string(uidDone))
	runtime := startCRI(t, fakecri.Options{})
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, runtime.Endpoint()
	// Who says that these namespaces are the node names its cgroups, too.
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No}))
	n.cfg.NodeNamespacesSelf = false
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No, policy.FactCgroup: policy.Unknown}))
	wantDetail(t, n.one(uid).Facts[policy.FactCgroup], "of 1 pods that the runtime runs none has a cgroup there")

	n.mkdir("cgroup/kubepods/burstable/pod" + string(uidLive))
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No}))

	// A runtime that runs nothing can show nothing: only the usual place is believed then.
	runtime.SetPods(fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job", NotReady: true, Exited: 1})
	check(t, n.one(uid), but(facts{policy.FactSandbox: policy.No, policy.FactCgroup: policy.Unknown}))
	c := &cgroups{kube: "kubepods"}
	if c.compare(nil, defaultCgroupRoot); c.fact(uid, defaultCgroupRoot).Truth != policy.No {
		t.Errorf("the usual place: %+v", c.fact(uid, defaultCgroupRoot))
	}
}
