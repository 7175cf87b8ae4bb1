package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// proc is a kubelet's process with these arguments.
func proc(pid int, args ...string) testkit.FakeProc {
	return testkit.FakeProc{PID: pid, Comm: "kubelet", Args: append([]string{"kubelet"}, args...)}
}

func findIn(t *testing.T, procDir, rootDir string) (policy.Fact, policy.KubeletID) {
	t.Helper()
	r := Reader{ProcDir: procDir, RootDir: rootDir, Guard: &bounded.Guard{}}
	a := r.Find(t.Context())
	if a.Running == nil {
		return a.Runs, policy.KubeletID{}
	}
	return a.Runs, a.Running.ID
}

func TestFindKubelet(t *testing.T) {
	const usual = "/var/lib/kubelet"
	files := t.TempDir()
	k3sFile := testkit.WriteText(t, filepath.Join(files, "k3s.yaml"), "token: x\nkubelet-arg:\n- max-pods=50\n- root-dir=/data/k3s\n")
	k3sString := testkit.WriteText(t, filepath.Join(files, "one.yaml"), "kubelet-arg: --root-dir=/data/one\n")
	argsFile := testkit.WriteText(t, filepath.Join(files, "kubelet"), "# comment\n--kubeconfig=${SNAP_DATA}/c\n--root-dir=\"${SNAP_COMMON}/kubelet\"\n--bare\n")
	for _, c := range []struct {
		name  string
		procs []testkit.FakeProc
		root  string
		want  int // PID; 0: none
	}{
		{"plain", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"/usr/bin/kubelet"}}}, usual, 42},
		{"root-dir with =", []testkit.FakeProc{proc(42, "--root-dir=/data/k8s/kubelet/")}, "/data/k8s/kubelet", 42},
		{"root-dir after a space", []testkit.FakeProc{proc(42, "--v", "2", "--root-dir", "/d")}, "/d", 42},
		{"the last one holds", []testkit.FakeProc{proc(42, "--root-dir=/a", "--root_dir=/b")}, "/b", 42},
		{"nothing after --", []testkit.FakeProc{proc(42, "--", "--root-dir=/a")}, usual, 42},
		{"another root", []testkit.FakeProc{proc(42, "--root-dir=/other")}, usual, 0},
		{"relative root", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Cwd: "/srv", Args: []string{"kubelet", "--root-dir=k"}}}, "/srv/k", 42},
		{"two roots", []testkit.FakeProc{proc(42, "--root-dir=/a"), proc(43, "--root-dir=/b")}, "/b", 43},
		{"a version in its name", []testkit.FakeProc{{PID: 42, Comm: "kubelet-v1.34.4", Args: []string{"/x/kubelet-v1.34.4", "--root-dir=/d"}}}, "/d", 42},
		{"renamed, with a kubelet's flags", []testkit.FakeProc{{PID: 42, Comm: "node-kubelet", Args: []string{"/opt/node-kubelet", "--root-dir", "/d"}}}, "/d", 42},
		{"another with such a name", []testkit.FakeProc{{PID: 42, Comm: "kubelet-csr-app", Args: []string{"kubelet-csr-approver", "--kubeconfig=/x"}}}, usual, 0},
		{"beside one in a pod", []testkit.FakeProc{
			{PID: 42, Comm: "kubelet", Args: []string{"kubelet"}, Cgroup: "/system.slice/kubelet.service"},
			{
				PID: 43, Comm: "kubelet", Args: []string{"kubelet"},
				Cgroup: "/kubepods.slice/kubepods-pod0fb1a2c3_1111_4222_8333_444455556666.slice/cri-containerd-1.scope",
			},
			{
				PID: 44, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/other"},
				Cgroup: "/kubepods/besteffort/pod0fb1a2c3-1111-4222-8333-444455556666/1",
			},
		}, usual, 42},
		{
			"a slice of kubelet's own",
			[]testkit.FakeProc{
				{PID: 42, Comm: "kubelet", Args: []string{"kubelet"}, Cgroup: "/kubepods-like.slice/kubelet.service"},
			},
			usual, 42,
		},
		{"hyperkube", []testkit.FakeProc{{PID: 42, Comm: "hyperkube", Args: []string{"/hyperkube", "kubelet", "--root-dir=/d"}}}, "/d", 42},
		{"hyperkube proxy", []testkit.FakeProc{{PID: 42, Comm: "hyperkube", Args: []string{"hyperkube", "proxy"}}}, usual, 0},
		{"k3s server", []testkit.FakeProc{{PID: 42, Comm: "k3s-server", Args: []string{"/usr/local/bin/k3s", "server", "--kubelet-arg=root-dir=/d"}}}, "/d", 42},
		{"k3s agent, two arguments", []testkit.FakeProc{{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--kubelet-arg", "--root-dir=/d"}}}, "/d", 42},
		{"k3s title", []testkit.FakeProc{{PID: 42, Comm: "k3s-server", Raw: "/usr/local/bin/k3s server\x00\x00\x00\x00"}}, usual, 42},
		{"k3s file", []testkit.FakeProc{{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config", k3sFile}}}, "/data/k3s", 42},
		{"k3s file, one string", []testkit.FakeProc{{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config=" + k3sString}}}, "/data/one", 42},
		{
			"k3s flag wins",
			[]testkit.FakeProc{
				{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config", k3sFile, "--kubelet-arg=root-dir=/d"}},
			},
			"/d", 42,
		},
		{"k3s kubectl", []testkit.FakeProc{{PID: 42, Comm: "k3s", Args: []string{"k3s", "kubectl", "get", "pods"}}}, usual, 0},
		{
			"rke2",
			[]testkit.FakeProc{
				{PID: 41, Comm: "rke2", Args: []string{"/usr/bin/rke2 server"}},
				{PID: 42, Parent: 41, Comm: "kubelet", Args: []string{"kubelet", "--node-labels=a"}},
			},
			usual, 42,
		},
		{
			"microk8s",
			[]testkit.FakeProc{
				{PID: 42, Comm: "kubelite", Args: []string{"/snap/microk8s/1/kubelite", "--kubelet-args-file=" + argsFile}},
			},
			"/var/snap/microk8s/common/kubelet", 42,
		},
		{"microk8s default", []testkit.FakeProc{{PID: 42, Comm: "kubelite", Args: []string{"kubelite"}}}, "/var/snap/microk8s/common/var/lib/kubelet", 42},
		{"renamed first argument", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"node-agent", "--root-dir=/d"}}}, "/d", 42},
		{"name with parentheses and spaces", []testkit.FakeProc{{PID: 42, Comm: "kube) S 9 (let", Args: []string{"/x/kubelet"}}}, usual, 42},
		{"a shell that mentions it", []testkit.FakeProc{{PID: 42, Comm: "bash", Args: []string{"bash", "-c", "kubelet --root-dir=" + usual}}}, usual, 0},
		{"a script of that name", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"/bin/sh", "/usr/local/bin/kubelet"}}}, usual, 0},
		{"a script with an option", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"/bin/bash", "-e", "/usr/local/bin/kubelet"}}}, usual, 0},
		{
			"a script and its kubelet",
			[]testkit.FakeProc{
				{PID: 41, Comm: "kubelet", Args: []string{"/bin/sh", "/x/kubelet"}},
				{PID: 42, Parent: 41, Comm: "kubelet", Args: []string{"/usr/bin/kubelet"}},
			},
			usual, 42,
		},
		{"an editor", []testkit.FakeProc{{PID: 42, Comm: "vim", Args: []string{"vim", "/usr/bin/kubelet"}}}, usual, 0},
		{"kubectl", []testkit.FakeProc{{PID: 42, Comm: "kubectl", Args: []string{"kubectl", "get", "kubelet"}}}, usual, 0},
		{"zombie", []testkit.FakeProc{{PID: 42, Comm: "kubelet", State: "Z"}}, usual, 0},
		{"dying", []testkit.FakeProc{{PID: 42, Comm: "kubelet", State: "X", Args: []string{"kubelet"}}}, usual, 0},
		{
			"a fork before its execve",
			[]testkit.FakeProc{
				proc(42, "-v=2"),
				{PID: 43, Parent: 42, Comm: "kubelet", Args: []string{"kubelet", "-v=2"}},
			},
			usual, 42,
		},
		{"another user's", []testkit.FakeProc{{PID: 42, Comm: "kubelet", UID: "12345", Args: []string{"kubelet"}}}, usual, 0},
		{"a node in a container", []testkit.FakeProc{{PID: 42, Comm: "kubelet", NSpid: "42\t7", Args: []string{"kubelet"}}}, usual, 0},
		{"ourselves", []testkit.FakeProc{{PID: os.Getpid(), Comm: "kubelet", Args: []string{"kubelet"}}}, usual, 0},
		{"none", nil, usual, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fact, id := findIn(t, testkit.ProcTree(t, c.procs...), c.root)
			want := policy.No
			if c.want != 0 {
				want = policy.Yes
			}
			if fact.Truth != want || id.PID != c.want || fact.Detail == "" || fact.Origin == "" {
				t.Errorf("%+v, %+v; want %s, PID %d", fact, id, want, c.want)
			}
		})
	}
}

// TestFindKubeletInDoubt checks the cases in which the running kubelet is unknown.
func TestFindKubeletInDoubt(t *testing.T) {
	const usual = "/var/lib/kubelet"
	plain := proc(42)
	second := plain
	second.PID = 4711
	orphanFork := second
	orphanFork.Parent, orphanFork.Args = 42, []string{"kubelet", "--other"}
	bad := testkit.WriteText(t, filepath.Join(t.TempDir(), "bad.yaml"), "a: [")
	for _, c := range []struct {
		name  string
		procs []testkit.FakeProc
		spoil func(t *testing.T, procDir string)
		want  string
	}{
		{"two with one root", []testkit.FakeProc{plain, second}, nil, "PIDs 42 and 4711"},
		{"a child with another command line", []testkit.FakeProc{plain, orphanFork}, nil, "PIDs 42 and 4711"},
		{"a directory in place of cmdline", []testkit.FakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			path := filepath.Join(procDir, "42", "cmdline")
			testkit.Must(t, os.Remove(path))
			testkit.Must(t, os.Mkdir(path, 0o700))
		}, "it is a directory"},
		{"stat that ends early", []testkit.FakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			testkit.WriteText(t, filepath.Join(procDir, "42", "stat"), "42 (kubelet) S 1")
		}, "fields after the name"},
		{"stat with junk", []testkit.FakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			testkit.WriteText(t, filepath.Join(procDir, "42", "stat"), "42 (kubelet) S 1"+strings.Repeat(" x", 40))
		}, "invalid syntax"},
		{"status without a user", []testkit.FakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			testkit.WriteText(t, filepath.Join(procDir, "42", "status"), "Name:\tkubelet\n")
		}, "no Uid line"},
		{"no PID 1", []testkit.FakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			testkit.Must(t, os.RemoveAll(filepath.Join(procDir, "1")))
		}, "does not show all processes"},
		{"relative root without cwd", []testkit.FakeProc{proc(42, "--root-dir=k")}, nil, "cwd"},
		{
			"its file cannot be read",
			[]testkit.FakeProc{{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config=/nonexistent/x.yaml"}}},
			nil,
			"no such file",
		},
		{"its file is broken", []testkit.FakeProc{{PID: 42, Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config=" + bad}}}, nil, "cannot read"},
		{"its file is relative", []testkit.FakeProc{{PID: 42, Comm: "kubelite", Args: []string{"kubelite", "--kubelet-args-file=x"}}}, nil, "not absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			procDir := testkit.ProcTree(t, c.procs...)
			if c.spoil != nil {
				c.spoil(t, procDir)
			}
			fact, id := findIn(t, procDir, usual)
			if fact.Truth != policy.Unknown || id != (policy.KubeletID{}) || !strings.Contains(fact.Detail, c.want) {
				t.Errorf("%+v, %+v; want unknown with %q", fact, id, c.want)
			}
		})
	}
	if fact, _ := findIn(t, filepath.Join(t.TempDir(), "none"), usual); fact.Truth != policy.Unknown {
		t.Errorf("without a /proc: %+v", fact)
	}
}

// TestStrangerNamedKubelet checks that the command line of a process of another user or of a pod is not read: its
// memory may be on a file system that never answers. A long list of its groups is no error.
func TestStrangerNamedKubelet(t *testing.T) {
	own, another := proc(42), strconv.Itoa(os.Geteuid()+1)
	setuid := testkit.ProcTree(t, own, proc(7))
	testkit.WriteText(t, filepath.Join(setuid, "7", "status"), "Name:\tkubelet\nUid:\t"+another+"\t0\t0\t0\nNSpid:\t7\n")
	if fact, id := findIn(t, setuid, "/var/lib/kubelet"); fact.Truth != policy.Yes || id.PID != 42 {
		t.Errorf("a user's process with another name that runs root's program: %+v", fact)
	}
	for name, p := range map[string]testkit.FakeProc{
		"another user": {PID: 7, Comm: "kubelet", UID: another},
		"a pod":        {PID: 7, Comm: "kubelet", Cgroup: "/kubepods/pod" + string(testkit.NewUID()) + "/c"},
	} {
		procDir := testkit.ProcTree(t, own, p)
		testkit.Must(t, os.Remove(filepath.Join(procDir, "7", "cmdline")))
		testkit.Must(t, os.Mkdir(filepath.Join(procDir, "7", "cmdline"), 0o700))
		status, err := os.ReadFile(filepath.Join(procDir, "7", "status"))
		testkit.Must(t, err)
		testkit.WriteText(t, filepath.Join(procDir, "7", "status"), string(status)+"Groups:\t"+strings.Repeat("4294967294 ", 65536)+"\n")
		if fact, id := findIn(t, procDir, "/var/lib/kubelet"); fact.Truth != policy.Yes || id.PID != 42 {
			t.Errorf("%s: %+v", name, fact)
		}
	}
}

// TestFindKubeletProcessesThatEnd removes files in the order in which they disappear when a process ends.
func TestFindKubeletProcessesThatEnd(t *testing.T) {
	for _, file := range []string{"comm", "cmdline", "stat", "status"} {
		procDir := testkit.ProcTree(t, proc(42))
		testkit.Must(t, os.Remove(filepath.Join(procDir, "42", file)))
		if fact, _ := findIn(t, procDir, "/var/lib/kubelet"); fact.Truth != policy.No {
			t.Errorf("%s gone: %+v", file, fact)
		}
	}
}

func TestFindKubeletStart(t *testing.T) {
	// A process name may contain what looks like its end.
	procDir := testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: "kube) S 9 (let", Args: []string{"kubelet"}, Start: 12345})
	tick, err := procfs.ClockTick()
	testkit.Must(t, err)
	if _, id := findIn(t, procDir, "/var/lib/kubelet"); id.Start != 12345*tick || tick != 10*time.Millisecond {
		t.Errorf("start %s with a tick of %s", id.Start, tick)
	}
}

func TestKubeletRootDir(t *testing.T) {
	tree := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(tree, tree), 0o700))
	one := proc(42, "--root-dir=/a")
	same := proc(43, "--root-dir=/a/")
	other := proc(44, "--root-dir=/b")
	for _, c := range []struct {
		name      string
		procs     []testkit.FakeProc
		dir, text string
	}{
		{"none", nil, "/var/lib/kubelet", "no kubelet runs"},
		{"one", []testkit.FakeProc{one}, "/a", "the running kubelet, PID 42"},
		{"two with one root", []testkit.FakeProc{one, same}, "/a", "PID 42"},
		{"two roots", []testkit.FakeProc{one, other}, "", "PID 42, root directory /a; kubelet, PID 44, root directory /b; set --root-dir"},
		{"its root cannot be read", []testkit.FakeProc{one, proc(45, "--root-dir=k")}, "", "PID 45"},
		{
			"another tree, the same directory",
			[]testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/proc"}, Root: "/"}},
			"/proc", "PID 42",
		},
		{
			"another tree, another directory",
			[]testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=" + tree}, Root: tree}},
			"",
			"a mount namespace of its own",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, from, err := RootDir(t.Context(), testkit.ProcTree(t, c.procs...))
			if err != nil {
				from = err.Error()
			}
			if dir != c.dir || (err != nil) != (c.dir == "") || !strings.Contains(from, c.text) {
				t.Errorf("%q, %q, %v; want %q with %q", dir, from, err, c.dir, c.text)
			}
		})
	}
	if _, _, err := RootDir(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty /proc gave no error")
	}
}

func TestCheckWaived(t *testing.T) {
	const root = "/var/lib/kubelet"
	listens := filepath.Join(t.TempDir(), "s")
	socketAt(t, listens)
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	for _, c := range []struct {
		name    string
		procs   []testkit.FakeProc
		sockets []string
		want    string // "": allowed
	}{
		{"nothing here", nil, []string{missing, dir}, ""},
		{"a socket that nothing listens at", nil, []string{testkit.StaleSocket(t)}, ""},
		{"a socket that listens", nil, []string{missing, listens}, "a runtime listens at "},
		{"a socket that hangs", nil, []string{testkit.MuteSocket(t, "")}, "a runtime listens at "},
		{"a kubelet", []testkit.FakeProc{proc(42)}, nil, "a kubelet runs here: kubelet, PID 42"},
		{"a kubelet by its first argument only", []testkit.FakeProc{{PID: 42, Comm: "exe", Args: []string{"/x/kubelet"}}}, nil, "PID 42"},
		{"two kubelets", []testkit.FakeProc{proc(42), proc(43)}, nil, "a kubelet runs here"},
		{"a script of that name", []testkit.FakeProc{{PID: 42, Comm: "kubelet", Args: []string{"/bin/sh", "/x/kubelet"}}}, nil, "PID 42"},
		{"a script and a kubelet with the root", []testkit.FakeProc{
			{PID: 41, Comm: "kubelet", Args: []string{"/bin/sh", "/x/kubelet", "--root-dir=/elsewhere"}},
			{PID: 42, Parent: 41, Comm: "kubelet", Args: []string{"kubelet"}},
		}, nil, "PID 42"},
		{"a kubelet with another root", []testkit.FakeProc{proc(42, "--root-dir=/elsewhere")}, nil, ""},
		{"a kubelet whose root is not known", []testkit.FakeProc{proc(42, "--root-dir=k")}, nil, "cannot find out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckWaived(t.Context(), testkit.ProcTree(t, c.procs...), root, c.sockets)
			if (err != nil) != (c.want != "") || !strings.Contains(fmt.Sprint(err), c.want) && c.want != "" {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := CheckWaived(t.Context(), t.TempDir(), root, nil); err == nil {
		t.Error("allowed with an empty /proc")
	}
}
