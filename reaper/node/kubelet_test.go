package node

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestCommand: which processes are a kubelet, and what their --root-dir is.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		comm, cmdline string
		is            bool
		root          string
	}{
		{"kubelet", "/usr/bin/kubelet\x00--root-dir=/a\x00--root_dir\x00/b\x00", true, "/b"},
		{"kubelet", "kubelet\x00--\x00--root-dir=/a\x00", true, ""},
		{"kubelite", "/snap/kubelite\x00", true, ""},
		{"hyperkube", "/hyperkube\x00kubelet\x00--root-dir=/a\x00", true, "/a"},
		{"hyperkube", "/hyperkube\x00/kubelet\x00", true, ""},
		{"hyperkube", "/hyperkube\x00proxy\x00", false, ""},
		{"k3s-server", "/usr/local/bin/k3s server --kubelet-arg=root-dir=/a\x00\x00\x00", true, "/a"},
		{"k3s-agent", "/usr/local/bin/k3s\x00agent\x00--kubelet-arg\x00--root-dir=/a\x00", true, "/a"},
		{"k3s", "/usr/local/bin/k3s\x00kubectl\x00get\x00", false, ""},
		{"kubelet-v1.34.4", "/opt/kubelet-v1.34.4\x00--root-dir=/a\x00", true, "/a"},
		{"kubelet.real", "/opt/kubelet.real\x00--root-dir=/a\x00", true, "/a"},
		{"kubelet-csr-app", "kubelet-csr-approver\x00--v=2\x00", false, ""},
		{".kubelet-wrapped", "/nix/bin/kubelet\x00--root-dir=/a\x00", true, "/a"},
		{"sh", "sh\x00-c\x00kubelet --root-dir=/a\x00", false, ""},
		{"kube-proxy", "kube-proxy\x00", false, ""},
		{"kubelet", "", false, ""},
	} {
		cmd, ok := parseCommand(c.comm, splitCmdline([]byte(c.cmdline)))
		if is := ok && !cmd.script; is != c.is {
			t.Errorf("%s %q: %v, want %v", c.comm, c.cmdline, is, c.is)
		} else if is && cmd.flag("root-dir") != c.root {
			t.Errorf("%s %q: the root directory is %q, want %q", c.comm, c.cmdline, cmd.flag("root-dir"), c.root)
		}
	}
	if cmd, ok := parseCommand("kubelet", []string{"/bin/sh", "/usr/bin/kubelet", "--root-dir=/a"}); !ok || !cmd.script {
		t.Error("a script named kubelet is no script")
	}
}

// TestKubeletIsOurs has which process is the kubelet whose reports count. Each case has PID 10, which is ours, and another process.
func TestKubeletIsOurs(t *testing.T) {
	const pod = "/kubepods.slice/kubepods-pod11111111_1111_1111_1111_111111111111.slice/cri-containerd-a.scope"
	for name, c := range map[string]struct {
		other  testkit.FakeProc
		truth  judge.Truth
		detail string
	}{
		"alone":              {testkit.FakeProc{PID: 300, Comm: "kube-proxy", Args: []string{"kube-proxy"}}, judge.Yes, "PID 10"},
		"a second":           {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}}, judge.No, "PIDs 10, 20"},
		"in a pod's cgroup":  {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, Cgroup: pod}, judge.Yes, "PID 10"},
		"of another user":    {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, UID: "1000"}, judge.Yes, "PID 10"},
		"of another root":    {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/other"}}, judge.Yes, "PID 10"},
		"without a root":     {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/gone"}}, judge.Yes, "PID 10"},
		"a fork":             {testkit.FakeProc{Comm: "kubelet", Parent: 10, Args: []string{"kubelet", "--v=2"}}, judge.Yes, "PID 10"},
		"a child":            {testkit.FakeProc{Comm: "kubelet", Parent: 10, Args: []string{"kubelet", "--v=3"}}, judge.No, "PIDs 10, 20"},
		"a zombie":           {testkit.FakeProc{Comm: "kubelet", State: "Z"}, judge.Yes, "PID 10"},
		"a script":           {testkit.FakeProc{Comm: "kubelet", Args: []string{"sh", "/bin/kubelet"}}, judge.Yes, "PID 10"},
		"with our path only": {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, Root: "elsewhere"}, judge.Yes, "PID 10"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.mkdir("elsewhere" + n.cfg.RootDir)
			if c.other.PID == 0 {
				c.other.PID = 20
			}
			if c.other.Root != "" {
				c.other.Root = n.dir
			}
			c.other.Root += "/" + map[bool]string{true: "elsewhere"}[c.other.Root != ""]
			own := testkit.FakeProc{PID: 10, Comm: "kubelet", Args: []string{"kubelet", "--v=2"}, Root: "/", Cgroup: "/system.slice/kubelet.service", NSpid: "10 7", Start: 500}
			for i, arg := range c.other.Args {
				if arg == "--root-dir=/other" {
					c.other.Args[i] = "--root-dir=" + n.dir
				}
			}
			n.cfg.Proc = testkit.ProcTree(t, own, c.other)
			addCgroups(t, n.cfg.Proc)
			s := n.scanner()
			found, err := s.findKubelets(sensed[*processes]{found: mustRead(t, s)})
			k, f := found.ours(doubt{err: err})
			wantFact(t, f, c.truth, false, c.detail)
			if c.truth == judge.Yes && (k.PID != 10 || k.Inner != 7 || k.Unit != "kubelet.service" || k.Start == 0) {
				t.Errorf("the kubelet is %+v", k)
			}
		})
	}
}

// addCgroups adds the file cgroup where ProcTree made none.
func addCgroups(t *testing.T, proc string) {
	t.Helper()
	entries, err := os.ReadDir(proc)
	must(t, err)
	for _, e := range entries {
		path := proc + "/" + e.Name() + "/cgroup"
		if _, err := os.Stat(path); os.IsNotExist(err) && e.Name() != "self" {
			testkit.WriteText(t, path, "0::/system.slice/x.service\n")
		}
	}
}

func mustRead(t *testing.T, s *Scanner) *processes {
	t.Helper()
	p, err := s.readProcesses(t.Context())
	must(t, err)
	return p
}

// TestVerbosity: the screens print the command that switches the kubelet back to its -v.
func TestVerbosity(t *testing.T) {
	for cmdline, want := range map[string]int{
		"kubelet": 0, "kubelet -v=2": 2, "kubelet -v3": 3, "kubelet -v 4": 4, "kubelet --v=5": 5, "kubelet --v 6 -v=1": 1,
		"kubelet -version": 0, "kubelet --volume-plugin-dir=/2": 0,
		"k3s server --kubelet-arg=v=4": 4, "k3s server --kubelet-arg -v=3": 3,
	} {
		args := strings.Fields(cmdline)
		cmd, ok := parseCommand(args[0], args)
		if got := cmd.verbosity(); got != want || !ok {
			t.Errorf("%s: %d, %t", cmdline, got, ok)
		}
	}
}

// TestNoKubelet: the detail names kubelets that do not count.
func TestNoKubelet(t *testing.T) {
	n := newNode(t)
	n.cfg.Proc = testkit.ProcTree(t, testkit.FakeProc{PID: 10, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=" + n.dir}, Root: "/"})
	addCgroups(t, n.cfg.Proc)
	s := n.scanner()
	found, err := s.findKubelets(sensed[*processes]{found: mustRead(t, s)})
	must(t, err)
	_, f := found.ours(doubt{})
	wantFact(t, f, judge.No, false, "PID 10 (kubelet) has another root directory")
}

// TestHiddenProcesses: with hidepid another kubelet may run.
func TestHiddenProcesses(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	n.cfg.Proc = testkit.ProcTree(t)
	must(t, os.RemoveAll(n.cfg.Proc+"/1"))
	s := n.scan()
	wantFact(t, s.Node.KubeletKnown, judge.Unknown, false, "does not show all processes")
	p, _ := s.Pod(uid)
	wantFact(t, p.Facts[judge.Mounted], judge.Unknown, false, "")
}

// TestRunningKubelet reads a process: its log files, format and start.
func TestRunningKubelet(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	log, err := os.Create(n.dir + "/kubelet.log")
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	must(t, os.Symlink("kubelet", n.dir+"/link"))
	pid := n.kubelet(log, "--root-dir", n.dir+"/link", "--logging-format=json")
	s := n.scan()
	wantFact(t, s.Node.KubeletKnown, judge.Yes, false, fmt.Sprint("PID ", pid))
	k := s.Node.Kubelet
	info, err := log.Stat()
	must(t, err)
	if len(k.Logs) != 1 || k.Logs[0].Path != log.Name() || !k.Logs[0].Own || k.JSON != judge.Yes || k.Start == 0 {
		t.Errorf("the kubelet is %+v, its log %v", k, info.Name())
	}
	// The log was rotated by a rename: the kubelet writes on to the old file.
	must(t, os.Rename(log.Name(), log.Name()+".1"))
	n.write("kubelet.log", "")
	if k = n.scan().Node.Kubelet; len(k.Logs) != 1 || k.Logs[0].Path != log.Name()+".1" {
		t.Errorf("after a rename the logs are %+v", k.Logs)
	}
}
