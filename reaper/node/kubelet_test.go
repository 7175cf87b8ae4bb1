package node

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
		"alone":               {testkit.FakeProc{PID: 300, Comm: "kube-proxy", Args: []string{"kube-proxy"}}, judge.Yes, "PID 10"},
		"a second":            {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}}, judge.No, "PIDs 10, 20"},
		"in a pod's cgroup":   {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, Cgroup: pod}, judge.Yes, "PID 10"},
		"of another user":     {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, UID: "1000"}, judge.Yes, "PID 10"},
		"of another root":     {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/other"}}, judge.Yes, "PID 10"},
		"without a root":      {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/gone"}}, judge.Yes, "PID 10"},
		"a fork":              {testkit.FakeProc{Comm: "kubelet", Parent: 10, Args: []string{"kubelet", "--v=2"}}, judge.Yes, "PID 10"},
		"a child":             {testkit.FakeProc{Comm: "kubelet", Parent: 10, Args: []string{"kubelet", "--v=3"}}, judge.No, "PIDs 10, 20"},
		"a zombie":            {testkit.FakeProc{Comm: "kubelet", State: "Z"}, judge.Yes, "PID 10"},
		"a script":            {testkit.FakeProc{Comm: "kubelet", Args: []string{"sh", "/bin/kubelet"}}, judge.Yes, "PID 10"},
		"with a loop as root": {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/loop"}}, judge.Unknown, "cannot open the root directory of PID 20"},
		"with our path only":  {testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet"}, Root: "elsewhere"}, judge.Yes, "PID 10"},
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
				switch arg {
				case "--root-dir=/other":
					c.other.Args[i] = "--root-dir=" + n.dir
				case "--root-dir=/loop":
					must(t, os.Symlink("loop", n.dir+"/loop"))
					c.other.Args[i] = "--root-dir=" + n.dir + "/loop"
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

// TestSameInode: two file systems may give their root directories the same inode, as tmpfs does.
func TestSameInode(t *testing.T) {
	testkit.NeedRoot(t)
	n := newNode(t)
	n.mkdir("other")
	var ids [2]judge.FileID
	for i, dir := range []string{n.cfg.RootDir, n.dir + "/other"} {
		testkit.Mount(t, "t", dir, "tmpfs", 0, "")
		var st unix.Stat_t
		must(t, unix.Stat(dir, &st))
		ids[i] = judge.FileID{Dev: st.Dev, Ino: st.Ino}
	}
	if ids[0].Ino != ids[1].Ino {
		testkit.Skip(t, "two tmpfs have different inodes here: ", ids)
	}
	n.cfg.Proc = testkit.ProcTree(t, testkit.FakeProc{PID: 10, Comm: "kubelet", Args: []string{"kubelet", "--root-dir=" + n.dir + "/other"}, Root: "/"})
	addCgroups(t, n.cfg.Proc)
	s := n.scanner()
	found, err := s.findKubelets(sensed[*processes]{found: mustRead(t, s)})
	must(t, err)
	if len(found.own) != 0 {
		t.Errorf("a kubelet with another root directory is ours: %+v", found.own)
	}
}

// TestReturnedPID: while a kubelet's command line is read, the kubelet ends and another process gets its PID.
func TestReturnedPID(t *testing.T) {
	n := newNode(t)
	n.cfg.Proc = testkit.ProcTree(t, testkit.FakeProc{PID: 10, Comm: "kubelet", Args: []string{"kubelet"}, Root: "/", Start: 500})
	addCgroups(t, n.cfg.Proc)
	s, dir := n.scanner(), n.cfg.Proc+"/10/"
	procs := mustRead(t, s)
	must(t, os.Remove(dir+"cmdline"))
	must(t, unix.Mkfifo(dir+"cmdline", 0o600))
	stat, err := os.ReadFile(dir + "stat")
	must(t, err)
	go func() {
		f, err := os.OpenFile(dir+"cmdline", os.O_WRONLY, 0) // it waits for the reader
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if err := os.WriteFile(dir+"stat", bytes.Replace(stat, []byte(" 500 "), []byte(" 501 "), 1), 0o600); err != nil {
			t.Error(err)
		}
		_, _ = f.WriteString("kubelet\x00")
	}()
	found, err := s.findKubelets(sensed[*processes]{found: procs})
	must(t, err)
	if len(found.own) != 0 {
		t.Errorf("%+v", found.own)
	}
}

// TestRefusedProcess: a process that may not be read may be a kubelet.
func TestRefusedProcess(t *testing.T) {
	testkit.NeedRoot(t)
	n := newNode(t)
	n.mkdir("devices")
	testkit.Mount(t, "t", n.dir+"/devices", "tmpfs", unix.MS_NODEV, "") // not even root opens a device there: mount(2), EACCES
	if err := unix.Mknod(n.dir+"/devices/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		testkit.Skip(t, "cannot make a device: ", err)
	}
	n.cfg.Proc = testkit.ProcTree(t)
	must(t, os.Remove(n.cfg.Proc+"/300/status"))
	must(t, os.Symlink(n.dir+"/devices/null", n.cfg.Proc+"/300/status"))
	s := n.scan()
	wantFact(t, s.Node.KubeletKnown, judge.Unknown, false, "permission denied")
}

// TestOwner: whose process it is. A user gives the cgroups below their slice any name.
func TestOwner(t *testing.T) {
	const uid, other = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	for text, want := range map[string]owner{
		"0::/kubepods/burstable/pod" + uid + "/c\n":                                                               {pod: uid},
		"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-a.scope\n": {pod: uid},
		"3:memory:/kubepods/pod" + uid + "/c\n1:name=systemd:/system.slice/containerd.service\n":                  {pod: uid, unit: "containerd.service"},
		"0::/kubepods/pod" + other + "/c/kubepods/pod" + uid + "\n":                                               {pod: uid}, // other is this whole node
		"0::/user.slice/user-1000.slice/user@1000.service/pod" + uid + "/x\n":                                     {},
		"0::/../../system.slice/kubelet.service\n":                                                                {unit: "kubelet.service"},
		"0::/\n": {},
	} {
		if got := parseOwner(text, other); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
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
