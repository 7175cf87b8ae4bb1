package kubelet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// containerTree makes a kubelet's root directory in which every path of its configuration contains an absolute
// symbolic link. Below this process's own root the same paths have other content, which a reader that follows links
// would read.
func containerTree(t *testing.T) (tree string) {
	t.Helper()
	tree = t.TempDir()
	outside := filepath.Join(t.TempDir(), "real")
	for _, d := range []string{filepath.Join(tree, outside), outside} {
		testkit.Must(t, os.MkdirAll(d, 0o700))
	}
	for dir, endpoint := range map[string]string{filepath.Join(tree, outside): "unix:///its/own", outside: "unix:///of/the/host"} {
		testkit.WriteText(t, filepath.Join(dir, "config.yaml"), "containerRuntimeEndpoint: "+endpoint+"\n")
		testkit.WriteText(t, filepath.Join(dir, "10.conf"), "port: "+map[string]string{outside: "1"}[dir]+"0\n")
		testkit.WriteText(t, filepath.Join(dir, "args"), "--root-dir=/r\n--container-runtime-endpoint="+endpoint+"\n")
	}
	testkit.Must(t, os.Symlink(outside, filepath.Join(tree, "etc")))
	return tree
}

// TestKubeletFilesApart checks that the files of a kubelet with another root are read below that root, links
// included.
func TestKubeletFilesApart(t *testing.T) {
	tree := containerTree(t)
	for _, c := range []struct {
		name string
		proc testkit.FakeProc
	}{
		{"configuration file", testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/r", "--config=/etc/config.yaml"}}},
		{"drop-in", testkit.FakeProc{Comm: "kubelet", Args: []string{"kubelet", "--root-dir=/r", "--config-dir=/drop"}}},
		{"k3s", testkit.FakeProc{Comm: "k3s-agent", Args: []string{"k3s", "agent", "--config=/etc/k3s.yaml"}}},
		{"k3s's own drop-ins", testkit.FakeProc{Comm: "k3s-agent", Args: []string{"k3s", "agent", "--data-dir=/data", "--kubelet-arg=root-dir=/r"}}},
		{"microk8s", testkit.FakeProc{Comm: "kubelite", Args: []string{"kubelite", "--kubelet-args-file=/etc/args"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for path, text := range map[string]string{
				"drop/10.conf": "containerRuntimeEndpoint: unix:///its/own\n",
				"etc/k3s.yaml": "kubelet-arg: [root-dir=/r]\n", "etc/k3s.yaml.d/1.yaml": "container-runtime-endpoint: unix:///its/own\n",
				"data/agent/etc/kubelet.conf.d/00-k3s-defaults.conf": "containerRuntimeEndpoint: unix:///its/own\n",
			} {
				if rest, ok := strings.CutPrefix(path, "etc/"); ok {
					target, err := os.Readlink(filepath.Join(tree, "etc"))
					testkit.Must(t, err)
					path = filepath.Join(target, rest)
				}
				testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o700))
				testkit.WriteText(t, filepath.Join(tree, path), text)
			}
			testkit.Must(t, os.MkdirAll(filepath.Join(tree, "r"), 0o700))
			c.proc.PID, c.proc.Root = 42, tree
			k, err := oneKubelet(testkit.ProcTree(t, c.proc), filepath.Join(tree, "r"))
			if err != nil || k == nil {
				t.Fatalf("%v, %v", k, err)
			}
			if endpoint, err := k.endpoint(); endpoint != "unix:///its/own" || err != nil {
				t.Errorf("%q, %v", endpoint, err)
			}
		})
	}
}

// TestKubeletFilesErrors checks that an obstacle is an error and never counts as a missing file.
func TestKubeletFilesErrors(t *testing.T) {
	tree := containerTree(t)
	s := scanner{procDir: testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: "kubelet", Args: []string{"kubelet"}, Root: tree, Start: 7})}
	files := func(pid int, start int64) kubeletFiles {
		t.Helper()
		f, err := s.filesOf(pid, start)
		testkit.Must(t, err)
		return f
	}
	if _, err := files(42, 7).read("/etc/config.yaml"); err != nil {
		t.Errorf("without an obstacle: %v", err)
	}
	if _, err := files(42, 7).read("/etc/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := files(42, 8).read("/etc/config.yaml"); !errors.Is(err, procfs.ErrEnded) {
		t.Errorf("another process with the same PID: %v", err)
	}
	if _, err := files(1, 0).read("config.yaml"); err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("relative path: %v", err)
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(tree, "dev"), 0o700))
	testkit.Must(t, unix.Mkfifo(filepath.Join(tree, "dev", "fifo"), 0o600))
	if _, err := files(42, 7).open("/dev/fifo", unix.O_RDONLY); err == nil || !strings.Contains(err.Error(), "it is a FIFO") {
		t.Errorf("a FIFO was opened: %v", err)
	}
	if _, err := files(42, 7).read("/etc"); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("directory: %v", err)
	}
	testkit.Must(t, os.Remove(filepath.Join(s.procDir, "42", "root")))
	if _, err := files(42, 7).read("/etc/config.yaml"); !errors.Is(err, procfs.ErrEnded) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted root: %v", err)
	}
	for _, text := range []string{"", strings.Repeat("x", 20<<10)} {
		testkit.WriteText(t, filepath.Join(s.procDir, "42", "mountinfo"), text)
		if f := files(42, 7); !f.apart && f.err == nil {
			t.Errorf("a mountinfo of %d bytes counts as our own", len(text))
		}
	}
	testkit.Must(t, os.RemoveAll(filepath.Join(s.procDir, "self")))
	if fact, _ := findIn(t, s.procDir, "/var/lib/kubelet"); fact.Truth != policy.Unknown || !strings.Contains(fact.Detail, "sees") {
		t.Errorf("our own mounts are not recognized: %+v", fact)
	}
}

// onThread runs f on a thread that ends with it, because what f does cannot be undone.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends here
		f()
	}()
	<-done
}

// TestKubeletFilesRefused reads the files of a real process in a mount namespace of its own, without CAP_SYS_PTRACE
// and without openat2.
func TestKubeletFilesRefused(t *testing.T) {
	self, err := os.Executable()
	testkit.Must(t, err)
	config := testkit.WriteText(t, filepath.Join(t.TempDir(), "config.yaml"), "port: 1\n")
	testkit.NeedRoot(t)
	pid := testkit.StartApart(t, unix.CLONE_NEWNS, "idle", self, "kubelet").Process.Pid
	s := scanner{procDir: "/proc"}
	st, err := procfs.StatOf(s.procDir, pid)
	testkit.Must(t, err)
	files, err := s.filesOf(pid, st.Start)
	testkit.Must(t, err)
	if !files.apart || files.err != nil {
		t.Fatalf("its own root was not detected: %+v", files)
	}
	if b, err := files.read(config); err != nil || len(b) == 0 {
		t.Fatalf("with all privileges: %v", err)
	}
	for words, take := range map[string]func() error{
		"needs CAP_SYS_PTRACE": func() error {
			head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			if err := unix.Capget(&head, &data[0]); err != nil {
				return err
			}
			data[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
			return unix.Capset(&head, &data[0])
		},
		"openat2 (Linux 5.6) is not available": withoutOpenat2,
	} {
		onThread(func() {
			if err := take(); err != nil {
				t.Errorf("%s: %v", words, err)
				return
			}
			if _, err := files.read(config); err == nil || !strings.Contains(err.Error(), words) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v, want %q", err, words)
			}
		})
	}
}

// withoutOpenat2 makes openat2 return ENOSYS on this thread, as before Linux 5.6.
func withoutOpenat2() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const load, equal, give = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{ // reads struct seccomp_data, whose first field is the system call
		{Code: load, K: 0},
		{Code: equal, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: give, K: 0x00050000 | uint32(unix.ENOSYS)}, // SECCOMP_RET_ERRNO
		{Code: give, K: 0x7fff0000},                       // SECCOMP_RET_ALLOW
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// TestDropIns checks that drop-in files are read in the order of filepath.WalkDir, as the kubelet does.
func TestDropIns(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"d/10.conf", "d/15.conf/20.conf", "d/15.conf/x.yaml", "d/5.conf", "other/30.conf", "k3s/agent/etc/kubelet.conf.d/00.conf"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		testkit.WriteText(t, filepath.Join(dir, file), "")
	}
	testkit.Must(t, os.Symlink("../other", filepath.Join(dir, "d", "12")))
	testkit.Must(t, os.Symlink("../other/30.conf", filepath.Join(dir, "d", "30.conf")))
	testkit.Must(t, os.Symlink("d", filepath.Join(dir, "link")))
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{nameKubelet, nil, ""},
		{nameKubelet, []string{"--config-dir=" + dir + "/d"}, "d/10.conf d/15.conf/20.conf d/30.conf d/5.conf"},
		{nameKubelet, []string{"--config-dir=" + dir + "/link"}, ""},
		{nameKubelet, []string{"--config-dir=" + dir + "/none"}, "error"},
		{nameK3s, []string{"--data-dir=" + dir + "/none"}, ""},
		{nameK3s, []string{"--data-dir=" + dir + "/none", "--config-dir=" + dir + "/d/15.conf"}, "d/15.conf/20.conf"}, // before 1.32
		{nameK3s, []string{"--data-dir=" + dir + "/k3s", "--config-dir=" + dir + "/d"}, "k3s/agent/etc/kubelet.conf.d/00.conf"},
	} {
		files, err := (&Kubelet{name: c.name, flags: c.args}).dropIns()
		got := strings.ReplaceAll(strings.Join(files, " "), dir+"/", "")
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s %v: %q, %v; want %q", c.name, c.args, got, err, c.want)
		}
	}
}

// TestSocketInItsOwnMountNamespace checks that the kubelet's socket path is used only if it leads to the same socket
// here. In a container without the link /var/run the default path may lead to it. Another socket of that name is not
// asked.
func TestSocketInItsOwnMountNamespace(t *testing.T) {
	dir, tree := t.TempDir(), t.TempDir()
	named, usual := filepath.Join(dir, "var/run/s"), filepath.Join(dir, "run/s")
	socketAt(t, usual)
	socketAt(t, filepath.Join(dir, "run/other"))
	socketAt(t, filepath.Join(dir, "both"))
	socketAt(t, filepath.Join(tree, dir, "both"))
	testkit.Must(t, os.MkdirAll(filepath.Join(tree, filepath.Dir(named)), 0o700))
	testkit.Must(t, os.Link(usual, filepath.Join(tree, named)))
	socketAt(t, filepath.Join(tree, "unseen"))
	for _, c := range []struct{ name, endpoint, root, want, words string }{
		{"the same files", usual, "/", usual, ""},
		{"another socket of that name", filepath.Join(dir, "both"), tree, "", "another socket than here"},
		{"at the usual place", named, tree, usual, ""},
		{"down", filepath.Join(dir, "var/run/down"), tree, "", "no such file"},
		{"seen by the kubelet alone", "/unseen", tree, "", "host.runtime"},
		{"of no machine", "tcp://1.2.3.4:5", tree, "", "is not unix"},
	} {
		args := []string{"kubelet", "--root-dir=/", "--container-runtime-endpoint=" + c.endpoint}
		procDir := testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: "kubelet", Args: args, Root: c.root})
		r := Reader{ProcDir: procDir, RootDir: c.root, Guard: &bounded.Guard{}}
		s := r.Sockets([]string{filepath.Join(dir, "run/none"), filepath.Join(dir, "run/other"), usual})
		if c.want != "" && (s.Err != nil || !slices.Equal(s.Paths, []string{c.want})) ||
			c.want == "" && (s.Err == nil || !strings.Contains(s.Err.Error(), c.words)) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}
