package kubelet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// socketAt makes a socket that exists until the test ends.
func socketAt(t *testing.T, path string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	dir, err := os.Open(filepath.Dir(path))
	testkit.Must(t, err)
	defer func() { _ = dir.Close() }()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))) // a socket's name may have 107 bytes
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestAgrees(t *testing.T) {
	dir := t.TempDir()
	path := func(rel string) string { return filepath.Join(dir, rel) }
	url := func(rel string) string { return "unix://" + path(rel) }
	socketAt(t, path("run/c.sock"))
	socketAt(t, path("run/other.sock"))
	testkit.Must(t, os.MkdirAll(path("run/down"), 0o700))
	testkit.Must(t, os.MkdirAll(path("a"), 0o700))
	testkit.Must(t, os.Symlink("run", path("var-run")))
	testkit.Must(t, os.Symlink("a", path("link")))
	config := testkit.WriteText(t, path("config.yaml"), "containerRuntimeEndpoint: "+url("run/c.sock")+"\n")
	tree := path("tree")
	testkit.Must(t, os.MkdirAll(filepath.Join(tree, path("a")), 0o700))
	testkit.Must(t, os.MkdirAll(filepath.Join(tree, "its/own"), 0o700))
	socketAt(t, filepath.Join(tree, "c.sock"))

	apart := func(p testkit.FakeProc) testkit.FakeProc {
		p.Root = tree
		return p
	}
	a, b := proc(42, "--root-dir="+path("a")), proc(43, "--root-dir="+path("b"))
	with := func(endpoint string) testkit.FakeProc {
		return proc(42, "--root-dir="+path("a"), "--container-runtime-endpoint="+endpoint)
	}
	for _, c := range []struct {
		name     string
		procs    []testkit.FakeProc
		root     string // the operator's setting; "": a, found at the start
		endpoint string // the operator's setting; "": auto
		want     policy.Truth
		words    string
	}{
		{"nothing set, one kubelet", []testkit.FakeProc{a}, "", "", policy.Yes, "PID 42"},
		{"root set and right", []testkit.FakeProc{a}, path("a"), "", policy.Yes, "PID 42"},
		{"root set and right, by a symlink", []testkit.FakeProc{a}, path("link"), "", policy.Yes, "PID 42"},
		{
			"root set, and only another runs",
			[]testkit.FakeProc{b},
			path("a"), "", policy.No,
			"--root-dir is " + path("a") + ", and the kubelet that runs has another: kubelet, PID 43, root directory " + path("b"),
		},
		{"its root cannot be read", []testkit.FakeProc{a, proc(43, "--root-dir=rel")}, "", "", policy.Unknown, "set --root-dir"},
		{
			"k3s hides its root",
			[]testkit.FakeProc{{PID: 42, Comm: "k3s-server", Raw: "/usr/local/bin/k3s server\x00\x00"}},
			path("a"),
			"", policy.Unknown, "kubelet-arg: [root-dir=" + path("a") + "]",
		},
		{"another tree, another directory", []testkit.FakeProc{apart(a)}, "", "", policy.No, "a mount namespace of its own"},
		{"another tree, the same directory elsewhere", []testkit.FakeProc{apart(proc(42, "--root-dir=/its/own"))}, tree + "/its/own", "", policy.Yes, "PID 42"},

		{"endpoint set, the kubelet has none", []testkit.FakeProc{a}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same", []testkit.FakeProc{with(url("run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same as a bare path", []testkit.FakeProc{with(path("run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same through a symlink", []testkit.FakeProc{with(url("var-run/c.sock"))}, path("a"), url("run/c.sock"), policy.Yes, ""},
		{"the same, and down", []testkit.FakeProc{with(url("run/down/c.sock"))}, path("a"), url("run/down/c.sock"), policy.Yes, ""},
		{"the same through a symlink, and down", []testkit.FakeProc{with(url("var-run/down/c.sock"))}, path("a"), url("run/down/c.sock"), policy.Yes, ""},
		{
			"another",
			[]testkit.FakeProc{with(url("run/c.sock"))},
			path("a"), url("run/other.sock"), policy.No,
			"--runtime-endpoint is " + url("run/other.sock") + ", and the kubelet (PID 42) uses " + url("run/c.sock"),
		},
		{
			"another in the file",
			[]testkit.FakeProc{proc(42, "--root-dir="+path("a"), "--config="+config)},
			path("a"),
			url("run/other.sock"), policy.No, url("run/c.sock"),
		},
		{"one that is not there", []testkit.FakeProc{with(url("run/c.sock"))}, path("a"), url("none.sock"), policy.No, url("run/c.sock")},
		{"no socket of this machine", []testkit.FakeProc{with("tcp://1.2.3.4:5")}, path("a"), url("run/c.sock"), policy.No, "tcp://1.2.3.4:5"},
		{
			"its file cannot be read",
			[]testkit.FakeProc{proc(42, "--root-dir="+path("a"), "--config=/nonexistent/c.yaml")},
			path("a"),
			url("run/c.sock"), policy.Unknown, "can be read",
		},
		{
			"another tree, another socket of that name",
			[]testkit.FakeProc{apart(proc(42, "--root-dir=/its/own", "--container-runtime-endpoint="+url("run/c.sock")))},
			tree + "/its/own", url("run/c.sock"), policy.No, "uses",
		},
		{
			"another tree, the same socket elsewhere",
			[]testkit.FakeProc{apart(proc(42, "--root-dir=/its/own", "--container-runtime-endpoint=unix:///c.sock"))},
			tree + "/its/own", "unix://" + tree + "/c.sock", policy.Yes, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Reader{ProcDir: testkit.ProcTree(t, c.procs...), RootDir: path("a"), RuntimeEndpoint: c.endpoint, Guard: &bounded.Guard{}}
			if c.root != "" {
				r.RootDir, r.RootDirSet = c.root, true
			}
			f := r.Find(t.Context()).Agrees
			if f.Truth != c.want || !strings.Contains(f.Detail, c.words) || f.Detail == "" || f.Origin == "" {
				t.Errorf("%+v, want %s with %q", f, c.want, c.words)
			}
			r.Waive = true
			if f := r.Find(t.Context()).Agrees; f.Truth != policy.Yes {
				t.Errorf("waived: %+v", f)
			}
		})
	}
}
