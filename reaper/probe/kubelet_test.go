package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// fakeProc is one process of a made /proc.
type fakeProc struct {
	pid, parent int
	comm        string
	args        []string
	raw         string // the command line as it is, instead of args
	state       string // default S
	uid         string // default 0
	nspid       string // default the PID
	cwd         string
	root        string // the tree that it sees, where that is not ours
	start       int64  // ticks
	cgroup      string // the path, default none
}

// hostMount is the first line of mountinfo of all processes that see the same files.
const hostMount = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"

// procTree makes a /proc that shows a PID 1 and the processes given.
func procTree(t *testing.T, procs ...fakeProc) string {
	t.Helper()
	dir := t.TempDir()
	addProc(t, dir, append([]fakeProc{
		{pid: 1, comm: "systemd", args: []string{"/sbin/init"}},
		{pid: 2, comm: "kthreadd"},
		{pid: 300, comm: "kube-proxy", args: []string{"kube-proxy", "--config=/x"}},
	}, procs...)...)
	return dir
}

func addProc(t *testing.T, procDir string, procs ...fakeProc) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(procDir, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(procDir, "self", "mountinfo"), hostMount)
	for _, p := range procs {
		dir := filepath.Join(procDir, strconv.Itoa(p.pid))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		cmdline := p.raw
		if cmdline == "" && p.args != nil {
			cmdline = strings.Join(p.args, "\x00") + "\x00"
		}
		state, uid, nspid := p.state, p.uid, p.nspid
		if state == "" {
			state = "S"
		}
		if uid == "" {
			uid = "0"
		}
		if nspid == "" {
			nspid = strconv.Itoa(p.pid)
		}
		mountinfo := hostMount
		if p.root != "" {
			mountinfo = fmt.Sprintf("%d 1 0:90 / / rw,relatime master:1 - overlay overlay rw\n", 1000+p.pid)
			if err := os.Symlink(p.root, filepath.Join(dir, "root")); err != nil {
				t.Fatal(err)
			}
		}
		if p.cgroup != "" {
			writeText(t, filepath.Join(dir, "cgroup"), "0::"+p.cgroup+"\n")
		}
		for name, text := range map[string]string{
			"comm":    p.comm + "\n",
			"cmdline": cmdline,
			"stat": fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 %d 123 45 18446744073709551615\n",
				p.pid, p.comm, state, p.parent, p.start),
			"mountinfo": mountinfo,
			"status":    fmt.Sprintf("Name:\t%s\nUid:\t%s\t%s\t%s\t%s\nNSpid:\t%s\n", p.comm, uid, uid, uid, uid, nspid),
		} {
			writeText(t, filepath.Join(dir, name), text)
		}
		if p.cwd != "" {
			if err := os.Symlink(p.cwd, filepath.Join(dir, "cwd")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func writeText(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func findIn(t *testing.T, procDir, rootDir string) (policy.Fact, policy.KubeletID) {
	t.Helper()
	p, err := New(Config{NodeRoot: t.TempDir(), ProcDir: procDir, RootDir: rootDir, Clock: atNoon{}})
	if err != nil {
		t.Fatal(err)
	}
	fact, k, _, _ := p.findKubelet(t.Context())
	if k == nil {
		return fact, policy.KubeletID{}
	}
	return fact, k.id
}

func TestFindKubelet(t *testing.T) {
	const usual = "/var/lib/kubelet"
	files := t.TempDir()
	k3sFile := writeText(t, filepath.Join(files, "k3s.yaml"), "token: x\nkubelet-arg:\n- max-pods=50\n- root-dir=/data/k3s\n")
	k3sString := writeText(t, filepath.Join(files, "one.yaml"), "kubelet-arg: --root-dir=/data/one\n")
	argsFile := writeText(t, filepath.Join(files, "kubelet"), "# comment\n--kubeconfig=${SNAP_DATA}/c\n--root-dir=\"${SNAP_COMMON}/kubelet\"\n--bare\n")
	for _, c := range []struct {
		name  string
		procs []fakeProc
		root  string
		want  int // PID, 0 for none
	}{
		{"plain", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"/usr/bin/kubelet"}}}, usual, 42},
		{"root-dir with =", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/data/k8s/kubelet/"}}}, "/data/k8s/kubelet", 42},
		{"root-dir after a space", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--v", "2", "--root-dir", "/d"}}}, "/d", 42},
		{"the last one holds", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/a", "--root_dir=/b"}}}, "/b", 42},
		{"nothing after --", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--", "--root-dir=/a"}}}, usual, 42},
		{"another root", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/other"}}}, usual, 0},
		{"relative root", []fakeProc{{pid: 42, comm: "kubelet", cwd: "/srv", args: []string{"kubelet", "--root-dir=k"}}}, "/srv/k", 42},
		{"two roots", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/a"}}, {pid: 43, comm: "kubelet", args: []string{"kubelet", "--root-dir=/b"}}}, "/b", 43},
		{"a version in its name", []fakeProc{{pid: 42, comm: "kubelet-v1.34.4", args: []string{"/x/kubelet-v1.34.4", "--root-dir=/d"}}}, "/d", 42},
		{"renamed, with a kubelet's flags", []fakeProc{{pid: 42, comm: "node-kubelet", args: []string{"/opt/node-kubelet", "--root-dir", "/d"}}}, "/d", 42},
		{"another with that word", []fakeProc{{pid: 42, comm: "kubelet-csr-app", args: []string{"kubelet-csr-approver", "--kubeconfig=/x"}}}, usual, 0},
		{"beside one in a pod", []fakeProc{
			{pid: 42, comm: "kubelet", args: []string{"kubelet"}, cgroup: "/system.slice/kubelet.service"},
			{
				pid: 43, comm: "kubelet", args: []string{"kubelet"},
				cgroup: "/kubepods.slice/kubepods-pod0fb1a2c3_1111_4222_8333_444455556666.slice/cri-containerd-1.scope",
			},
			{
				pid: 44, comm: "kubelet", args: []string{"kubelet", "--root-dir=/other"},
				cgroup: "/kubepods/besteffort/pod0fb1a2c3-1111-4222-8333-444455556666/1",
			},
		}, usual, 42},
		{"a slice of kubelet's own", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet"}, cgroup: "/kubepods-like.slice/kubelet.service"}}, usual, 42},
		{"hyperkube", []fakeProc{{pid: 42, comm: "hyperkube", args: []string{"/hyperkube", "kubelet", "--root-dir=/d"}}}, "/d", 42},
		{"hyperkube proxy", []fakeProc{{pid: 42, comm: "hyperkube", args: []string{"hyperkube", "proxy"}}}, usual, 0},
		{"k3s server", []fakeProc{{pid: 42, comm: "k3s-server", args: []string{"/usr/local/bin/k3s", "server", "--kubelet-arg=root-dir=/d"}}}, "/d", 42},
		{"k3s agent, two arguments", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--kubelet-arg", "--root-dir=/d"}}}, "/d", 42},
		{"k3s title", []fakeProc{{pid: 42, comm: "k3s-server", raw: "/usr/local/bin/k3s server\x00\x00\x00\x00"}}, usual, 42},
		{"k3s file", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--config", k3sFile}}}, "/data/k3s", 42},
		{"k3s file, one string", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--config=" + k3sString}}}, "/data/one", 42},
		{"k3s flag wins", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--config", k3sFile, "--kubelet-arg=root-dir=/d"}}}, "/d", 42},
		{"k3s kubectl", []fakeProc{{pid: 42, comm: "k3s", args: []string{"k3s", "kubectl", "get", "pods"}}}, usual, 0},
		{"rke2", []fakeProc{{pid: 41, comm: "rke2", args: []string{"/usr/bin/rke2 server"}}, {pid: 42, parent: 41, comm: "kubelet", args: []string{"kubelet", "--node-labels=a"}}}, usual, 42},
		{"microk8s", []fakeProc{{pid: 42, comm: "kubelite", args: []string{"/snap/microk8s/1/kubelite", "--kubelet-args-file=" + argsFile}}}, "/var/snap/microk8s/common/kubelet", 42},
		{"microk8s default", []fakeProc{{pid: 42, comm: "kubelite", args: []string{"kubelite"}}}, "/var/snap/microk8s/common/var/lib/kubelet", 42},
		{"renamed first argument", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"node-agent", "--root-dir=/d"}}}, "/d", 42},
		{"name with parentheses and spaces", []fakeProc{{pid: 42, comm: "kube) S 9 (let", args: []string{"/x/kubelet"}}}, usual, 42},
		{"a shell that mentions it", []fakeProc{{pid: 42, comm: "bash", args: []string{"bash", "-c", "kubelet --root-dir=" + usual}}}, usual, 0},
		{"a script of that name", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"/bin/sh", "/usr/local/bin/kubelet"}}}, usual, 0},
		{"a script with an option", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"/bin/bash", "-e", "/usr/local/bin/kubelet"}}}, usual, 0},
		{"a script and its kubelet", []fakeProc{{pid: 41, comm: "kubelet", args: []string{"/bin/sh", "/x/kubelet"}}, {pid: 42, parent: 41, comm: "kubelet", args: []string{"/usr/bin/kubelet"}}}, usual, 42},
		{"an editor", []fakeProc{{pid: 42, comm: "vim", args: []string{"vim", "/usr/bin/kubelet"}}}, usual, 0},
		{"kubectl", []fakeProc{{pid: 42, comm: "kubectl", args: []string{"kubectl", "get", "kubelet"}}}, usual, 0},
		{"zombie", []fakeProc{{pid: 42, comm: "kubelet", state: "Z"}}, usual, 0},
		{"dying", []fakeProc{{pid: 42, comm: "kubelet", state: "X", args: []string{"kubelet"}}}, usual, 0},
		{"a fork before its execve", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "-v=2"}}, {pid: 43, parent: 42, comm: "kubelet", args: []string{"kubelet", "-v=2"}}}, usual, 42},
		{"somebody's own", []fakeProc{{pid: 42, comm: "kubelet", uid: "12345", args: []string{"kubelet"}}}, usual, 0},
		{"a node in a container", []fakeProc{{pid: 42, comm: "kubelet", nspid: "42\t7", args: []string{"kubelet"}}}, usual, 0},
		{"ourselves", []fakeProc{{pid: os.Getpid(), comm: "kubelet", args: []string{"kubelet"}}}, usual, 0},
		{"none", nil, usual, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fact, id := findIn(t, procTree(t, c.procs...), c.root)
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

// TestFindKubeletInDoubt: where it cannot be told which kubelet runs, it is unknown.
func TestFindKubeletInDoubt(t *testing.T) {
	const usual = "/var/lib/kubelet"
	plain := fakeProc{pid: 42, comm: "kubelet", args: []string{"kubelet"}}
	second := plain
	second.pid = 4711
	orphanFork := second
	orphanFork.parent, orphanFork.args = 42, []string{"kubelet", "--other"}
	bad := writeText(t, filepath.Join(t.TempDir(), "bad.yaml"), "a: [")
	for _, c := range []struct {
		name  string
		procs []fakeProc
		spoil func(t *testing.T, procDir string)
		want  string
	}{
		{"two with one root", []fakeProc{plain, second}, nil, "PIDs 42 and 4711"},
		{"a child with another command line", []fakeProc{plain, orphanFork}, nil, "PIDs 42 and 4711"},
		{"a directory in place of cmdline", []fakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			path := filepath.Join(procDir, "42", "cmdline")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "it is a directory"},
		{"stat that ends early", []fakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			writeText(t, filepath.Join(procDir, "42", "stat"), "42 (kubelet) S 1")
		}, "fields after the name"},
		{"stat with junk", []fakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			writeText(t, filepath.Join(procDir, "42", "stat"), "42 (kubelet) S 1"+strings.Repeat(" x", 40))
		}, "invalid syntax"},
		{"status without a user", []fakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			writeText(t, filepath.Join(procDir, "42", "status"), "Name:\tkubelet\n")
		}, "no Uid line"},
		{"no PID 1", []fakeProc{plain}, func(t *testing.T, procDir string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(procDir, "1")); err != nil {
				t.Fatal(err)
			}
		}, "does not show all processes"},
		{"relative root without cwd", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=k"}}}, nil, "cwd"},
		{"its file cannot be read", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--config=/nonexistent/x.yaml"}}}, nil, "no such file"},
		{"its file is broken", []fakeProc{{pid: 42, comm: "k3s-agent", args: []string{"k3s", "agent", "--config=" + bad}}}, nil, "cannot read"},
		{"its file is relative", []fakeProc{{pid: 42, comm: "kubelite", args: []string{"kubelite", "--kubelet-args-file=x"}}}, nil, "not absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			procDir := procTree(t, c.procs...)
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

// TestFindKubeletProcessesThatEnd removes files as an ending process does.
func TestFindKubeletProcessesThatEnd(t *testing.T) {
	for _, file := range []string{"comm", "cmdline", "stat", "status"} {
		procDir := procTree(t, fakeProc{pid: 42, comm: "kubelet", args: []string{"kubelet"}})
		if err := os.Remove(filepath.Join(procDir, "42", file)); err != nil {
			t.Fatal(err)
		}
		if fact, _ := findIn(t, procDir, "/var/lib/kubelet"); fact.Truth != policy.No {
			t.Errorf("%s gone: %+v", file, fact)
		}
	}
}

func TestFindKubeletBehindASymlink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{target, link}, {link, target}} {
		procDir := procTree(t, fakeProc{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir", pair[0]}})
		if fact, id := findIn(t, procDir, pair[1]); fact.Truth != policy.Yes || id.PID != 42 {
			t.Errorf("%v: %+v", pair, fact)
		}
	}
}

func TestFindKubeletStart(t *testing.T) {
	// A name may hold what looks like the end of it.
	procDir := procTree(t, fakeProc{pid: 42, comm: "kube) S 9 (let", args: []string{"kubelet"}, start: 12345})
	tick, err := procfs.ClockTick()
	if err != nil {
		t.Fatal(err)
	}
	if _, id := findIn(t, procDir, "/var/lib/kubelet"); id.Start != 12345*tick || tick != 10*time.Millisecond {
		t.Errorf("start %s with a tick of %s", id.Start, tick)
	}
}

func TestRuntimeEndpointOfTheKubelet(t *testing.T) {
	dir := t.TempDir()
	config := writeText(t, filepath.Join(dir, "config.yaml"), "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///from/file\n")
	asJSON := writeText(t, filepath.Join(dir, "config.json"), `{"kind":"KubeletConfiguration","containerRuntimeEndpoint":"unix:///from/json"}`)
	silent := writeText(t, filepath.Join(dir, "silent.yaml"), "kind: KubeletConfiguration\n")
	k3s := writeText(t, filepath.Join(dir, "k3s.yaml"), "container-runtime-endpoint: unix:///from/k3s\n")
	dropIn := filepath.Join(dir, "d")
	if err := os.Mkdir(dropIn, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dropIn, "10.conf"), "containerRuntimeEndpoint: unix:///from/10\n")
	writeText(t, filepath.Join(dropIn, "20.conf"), "containerRuntimeEndpoint: unix:///from/20\n")
	writeText(t, filepath.Join(dropIn, "30.yaml"), "containerRuntimeEndpoint: unix:///ignored\n")
	large := writeText(t, filepath.Join(dir, "large"), strings.Repeat("#\n", maxConfig))
	for _, c := range []struct {
		comm string
		args []string
		want string
		err  bool
	}{
		{"kubelet", []string{"kubelet"}, "", false},
		{"kubelet", []string{"kubelet", "--container-runtime-endpoint=unix:///x"}, "unix:///x", false},
		{"kubelet", []string{"kubelet", "--container-runtime-endpoint", "/x"}, "/x", false},
		{"kubelet", []string{"kubelet", "--config", config}, "unix:///from/file", false},
		{"kubelet", []string{"kubelet", "--config=" + asJSON}, "unix:///from/json", false},
		{"kubelet", []string{"kubelet", "--config=" + silent}, "", false},
		{"kubelet", []string{"kubelet", "--config", config, "--container-runtime-endpoint=unix:///x"}, "unix:///x", false},
		{"kubelet", []string{"kubelet", "--config", config, "--config-dir", dropIn}, "unix:///from/20", false},
		{"k3s-server", []string{"k3s", "server", "--config", k3s}, "unix:///from/k3s", false},
		{"k3s-server", []string{"k3s", "server", "--config", k3s, "--container-runtime-endpoint=/x"}, "/x", false},
		{"kubelet", []string{"kubelet", "--config", dir + "/missing"}, "", true},
		{"kubelet", []string{"kubelet", "--config", dir}, "", true},
		{"kubelet", []string{"kubelet", "--config", "relative"}, "", true},
		{"kubelet", []string{"kubelet", "--config", large}, "", true},
		{"kubelet", []string{"kubelet", "--config-dir", dir + "/missing"}, "", true},
	} {
		k, ok := parseCommand(c.comm, c.args)
		if !ok {
			t.Fatalf("%v is no kubelet", c.args)
		}
		var err error
		if k.flags, err = k.effective(); err != nil {
			t.Fatal(err)
		}
		if got, err := k.runtimeEndpoint(); got != c.want || (err != nil) != c.err {
			t.Errorf("%v: %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}

func TestKubeletRootDir(t *testing.T) {
	tree := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, tree), 0o700); err != nil {
		t.Fatal(err)
	}
	one := fakeProc{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/a"}}
	same := fakeProc{pid: 43, comm: "kubelet", args: []string{"kubelet", "--root-dir=/a/"}}
	other := fakeProc{pid: 44, comm: "kubelet", args: []string{"kubelet", "--root-dir=/b"}}
	for _, c := range []struct {
		name      string
		procs     []fakeProc
		dir, text string
	}{
		{"none", nil, "/var/lib/kubelet", "no kubelet runs"},
		{"one", []fakeProc{one}, "/a", "the running kubelet, PID 42"},
		{"two with one root", []fakeProc{one, same}, "/a", "PID 42"},
		{"two roots", []fakeProc{one, other}, "", "PID 42, root directory /a; kubelet, PID 44, root directory /b; set --root-dir"},
		{"its root cannot be told", []fakeProc{one, {pid: 45, comm: "kubelet", args: []string{"kubelet", "--root-dir=k"}}}, "", "PID 45"},
		{"another tree, the same directory", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/proc"}, root: "/"}}, "/proc", "PID 42"},
		{"another tree, another directory", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=" + tree}, root: tree}}, "", "a mount namespace of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, from, err := KubeletRootDir(t.Context(), procTree(t, c.procs...))
			if err != nil {
				from = err.Error()
			}
			if dir != c.dir || (err != nil) != (c.dir == "") || !strings.Contains(from, c.text) {
				t.Errorf("%q, %q, %v; want %q with %q", dir, from, err, c.dir, c.text)
			}
		})
	}
	if _, _, err := KubeletRootDir(t.Context(), t.TempDir()); err == nil {
		t.Error("no error from an empty /proc")
	}
}

func TestCheckWaived(t *testing.T) {
	const root = "/var/lib/kubelet"
	runtime := startCRI(t, fakecri.Options{Version: fakecri.NoCRI})
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	for _, c := range []struct {
		name    string
		procs   []fakeProc
		sockets []string
		want    string // "" where it is allowed
	}{
		{"nothing here", nil, []string{missing, dir}, ""},
		{"a socket that nothing listens at", nil, []string{staleSocket(t)}, ""},
		{"a socket that listens", nil, []string{missing, socketOf(runtime)}, "a runtime listens at "},
		{"a socket that hangs", nil, []string{mute(t, "")}, "a runtime listens at "},
		{"a kubelet", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet"}}}, nil, "a kubelet runs here: kubelet, PID 42"},
		{"a kubelet by its first argument only", []fakeProc{{pid: 42, comm: "exe", args: []string{"/x/kubelet"}}}, nil, "PID 42"},
		{"two kubelets", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet"}}, {pid: 43, comm: "kubelet", args: []string{"kubelet"}}}, nil, "a kubelet runs here"},
		{"a script of that name", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"/bin/sh", "/x/kubelet"}}}, nil, "PID 42"},
		{"a script and a kubelet with the root", []fakeProc{
			{pid: 41, comm: "kubelet", args: []string{"/bin/sh", "/x/kubelet", "--root-dir=/elsewhere"}},
			{pid: 42, parent: 41, comm: "kubelet", args: []string{"kubelet"}},
		}, nil, "PID 42"},
		{"a kubelet with another root", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=/elsewhere"}}}, nil, ""},
		{"a kubelet whose root is not known", []fakeProc{{pid: 42, comm: "kubelet", args: []string{"kubelet", "--root-dir=k"}}}, nil, "cannot tell"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckWaived(t.Context(), procTree(t, c.procs...), root, c.sockets)
			if (err != nil) != (c.want != "") || !strings.Contains(fmt.Sprint(err), c.want) && c.want != "" {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := CheckWaived(t.Context(), t.TempDir(), root, nil); err == nil {
		t.Error("allowed with a /proc that shows nothing")
	}
}

// BenchmarkFindKubelet looks for the kubelet among 1,000 processes.
func BenchmarkFindKubelet(b *testing.B) {
	dir := b.TempDir()
	for pid := 1; pid <= 1000; pid++ {
		path := filepath.Join(dir, strconv.Itoa(pid))
		if err := os.Mkdir(path, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "comm"), []byte("nginx\n"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := oneKubelet(dir, "/var/lib/kubelet"); err != nil {
			b.Fatal(err)
		}
	}
}
