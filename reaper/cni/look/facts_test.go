package look

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestCNIAlive checks a container that runs although the runtime does not list it.
func TestCNIAlive(t *testing.T) {
	gone := id("gone")
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
		words  string
	}{
		{"nothing of it", func(n *cniNode) { n.mkdir("run/task/k8s.io/" + id("another")) }, policy.No, ""},
		{"a task", func(n *cniNode) { n.mkdir("run/task/k8s.io/" + gone) }, policy.Yes, "has a task in "},
		{"a state of runc", func(n *cniNode) { n.mkdir("run/runc/" + gone) }, policy.Yes, "run/runc"},
		{"a task with a longer name", func(n *cniNode) { n.mkdir("run/task/k8s.io/" + gone + "0") }, policy.No, ""},
		{"a cgroup", func(n *cniNode) {
			n.mkdir("cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + gone + ".scope")
		}, policy.Yes, "cri-containerd-"},
		{"a cgroup below a pod's", func(n *cniNode) { n.mkdir("cgroup/kubepods/pod" + string(newUID()) + "/" + gone) }, policy.Yes, "the cgroup "},
		{"a cgroup outside of the pods'", func(n *cniNode) { n.mkdir("cgroup/machine.slice/libpod-" + gone + ".scope/container") }, policy.Yes, "libpod-"},
		{"a cgroup with a longer name", func(n *cniNode) { n.mkdir("cgroup/kubepods.slice/crio-" + gone + "0.scope") }, policy.No, ""},
		{"no kubepods", func(n *cniNode) { testkit.Must(n.t, os.Remove(n.path("cgroup/kubepods.slice"))) }, policy.Unknown, "no kubepods hierarchy"},
		{"no cgroups", func(n *cniNode) { n.cgroupRoot = n.path("none") }, policy.Unknown, "cannot read the cgroups"},
		{"tasks that cannot be read", func(n *cniNode) { n.symlink("a-loop", "run/task"); n.symlink("task", "run/a-loop") }, policy.Unknown, "cannot read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			c.change(n)
			name := n.cache("cbr0", gone, "eth0", string(newUID()), n.netns("gone"))
			f := cniFile(t, n.sweep(), name)
			checkCNI(t, f, cniFacts{cni.Alive: c.want})
			wantDetail(t, f.Facts[cni.Alive], c.words)
		})
	}
}

// TestCNIForeign checks a network that may be shared with another engine, and an ID that may be another engine's.
func TestCNIForeign(t *testing.T) {
	gone := id("gone")
	for _, c := range []struct {
		name          string
		network, uid  string
		change        func(*cniNode)
		cached, other policy.Truth // for the cache file, and for an address of the same ID without one
	}{
		{"a pod's", "podman", string(newUID()), nil, policy.No, policy.No},
		{"a pod's, from a runtime that gives no UID", "podman", "", nil, policy.No, policy.No},
		{"another's, in a network of the node", "cbr0", "other", nil, policy.No, policy.No},
		{"another's, in an unknown network", "podman", "other", nil, policy.Yes, policy.Yes},
		{"another's, in a network of a delegate", "inner", "other", func(n *cniNode) {
			n.write("net.d/00-multus.conf", `{"name":"multus","type":"multus","delegates":[{"name":"inner","type":"bridge"}]}`)
		}, policy.No, policy.No},
		{"a network whose file has another ending", "podman", "other", func(n *cniNode) {
			n.write("net.d/87-podman.conflist.bak", `{"name":"podman","plugins":[{"type":"bridge"}]}`)
		}, policy.Yes, policy.Yes},
		{"a configuration that cannot be parsed", "podman", "other", func(n *cniNode) { n.write("net.d/1.conf", "{") }, policy.Unknown, policy.Unknown},
		{"no configuration directory", "podman", "other", func(n *cniNode) { n.cfg.ConfDir = n.path("none") }, policy.Unknown, policy.Unknown},
		{"OpenShift's configuration, on the node of a container", "ovn", "other", func(n *cniNode) {
			dir := filepath.Join(n.apart(), n.path("etc/kubernetes/cni/net.d"))
			testkit.Must(n.t, os.MkdirAll(dir, 0o755))
			testkit.Must(n.t, os.WriteFile(filepath.Join(dir, "10.conf"), []byte(`{"name":"ovn","type":"ovn-k8s-cni-overlay"}`), 0o600))
		}, policy.No, policy.No},
		{"Podman has it", "cbr0", string(newUID()), func(n *cniNode) { n.mkdir("storage/overlay-containers/" + gone) }, policy.Yes, policy.Yes},
		{"Docker has it", "cbr0", "other", func(n *cniNode) { n.mkdir("docker/containers/" + gone) }, policy.Yes, policy.Yes},
		{"it runs in another namespace of containerd", "cbr0", "other", func(n *cniNode) { n.mkdir("run/task/default/" + gone) }, policy.Yes, policy.Yes},
		{"it runs in the kubelet's", "cbr0", "other", func(n *cniNode) { n.mkdir("run/task/k8s.io/" + gone) }, policy.No, policy.No},
		{"a store that cannot be read", "cbr0", string(newUID()), func(n *cniNode) { n.symlink("storage", "storage") }, policy.Unknown, policy.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.chunk = 1
			if c.change != nil {
				c.change(n)
			}
			name := n.cache(c.network, gone, "eth0", c.uid, n.netns("gone"))
			n.address(c.network, "10.244.0.9", gone)
			looks := n.sweep()
			checkCNI(t, cniFile(t, looks, name), cniFacts{cni.Foreign: c.cached})
			if c.name == "Podman has it" { // or CRI-O, whose own store is not another engine's
				wantDetail(t, cniFile(t, looks, name).Facts[cni.Foreign], "which CRI-O and Podman share")
			}
			checkCNI(t, cniFile(t, looks, "10.244.0.9"), cniFacts{cni.Foreign: c.other})
		})
	}
}

// TestCNIForeignWithoutCache checks reservations and delegates without a cache file.
func TestCNIForeignWithoutCache(t *testing.T) {
	n := newCNINode(t)
	n.address("cbr0", "10.244.0.9", id("a"))
	n.address("podman", "10.88.0.9", id("b"))
	n.write("cni/multus/"+id("c"), "[]")
	n.write("cni/flannel/"+id("d"), `{"name":"cbr0","type":"bridge"}`)
	n.write("cni/flannel/"+id("e"), `{"name":"podman","type":"bridge"}`)
	n.write("cni/flannel/"+id("f"), "")
	looks := n.sweep()
	for name, want := range map[string]policy.Truth{
		"10.244.0.9": policy.No, "10.88.0.9": policy.Yes, id("c"): policy.No, id("d"): policy.No, id("e"): policy.Yes, id("f"): policy.Unknown,
	} {
		checkCNI(t, cniFile(t, looks, name), cniFacts{cni.Foreign: want})
	}
}

// TestCNIDataDir checks that a dataDir that only a configuration has is read, also one in a directory of lists, and
// that each directory is read once.
func TestCNIDataDir(t *testing.T) {
	n := newCNINode(t)
	n.write("net.d/20.conf", `{"name":"v","type":"macvlan","ipam":{"type":"host-local","dataDir":"`+n.path("data")+`/"}}`)
	n.write("net.d/30.conflist", `{"cniVersion":"1.1.0","name":"w","loadPluginsFromFolder":true}`)
	n.write("net.d/w/1.conf", `{"type":"macvlan","ipam":{"type":"host-local","dataDir":"`+n.path("more")+`"}}`)
	n.write("data/v/10.0.0.1", id("gone"))
	n.write("more/w/10.0.0.2", id("gone"))
	n.address("cbr0", "10.244.0.9", id("gone"))
	looks := n.sweep()
	for _, name := range []string{"10.0.0.1", "10.0.0.2", "10.244.0.9"} {
		checkCNI(t, cniFile(t, looks, name), goneFacts(nil))
	}
}

// TestCNIOwnRoot checks that on a node whose default directories are below another one, every directory of host-local
// is, too, configured or default: the machine's own files are another node's.
func TestCNIOwnRoot(t *testing.T) {
	n := newCNINode(t)
	n.write("net.d/20.conf", `{"name":"v","type":"macvlan","ipam":{"type":"host-local"}}`)
	n.write("net.d/30.conf", `{"name":"w","type":"macvlan","ipam":{"type":"host-local","dataDir":"/var/lib/elsewhere/"}}`)
	n.write("var/lib/cni/networks/v/10.0.0.1", id("gone"))
	n.write("var/lib/elsewhere/w/10.0.0.2", id("gone"))
	looks := n.sweep()
	for _, name := range []string{"10.0.0.1", "10.0.0.2"} {
		checkCNI(t, cniFile(t, looks, name), goneFacts(nil))
	}
	for _, dir := range n.reader().Dirs() {
		if !strings.HasPrefix(dir, n.dir+"/") {
			t.Errorf("reads %s of the machine", dir)
		}
	}
}

// TestCNINetns checks namespaces that exist or may exist.
func TestCNINetns(t *testing.T) {
	for _, c := range []struct {
		name, path string // % is the node's directory
		change     func(*cniNode)
		want       policy.Truth
		words      string
	}{
		{"gone", "%/var/run/netns/x", nil, policy.No, ""},
		{"there", "%/run/netns/x", func(n *cniNode) { n.write("run/netns/x", "") }, policy.Yes, "exists"},
		{"there, by the other name", "%/var/run/netns/x", func(n *cniNode) { n.write("run/netns/x", "") }, policy.Yes, "exists"},
		{"no directory of namespaces", "%/run/netns/x", func(n *cniNode) { testkit.Must(n.t, os.Remove(n.path("run/netns"))) }, policy.No, ""},
		{"namespaces that cannot be read", "%/run/netns/x", func(n *cniNode) {
			testkit.Must(n.t, os.Remove(n.path("run/netns")))
			n.symlink("netns", "run/netns")
		}, policy.Unknown, "cannot read the network namespaces"},
		{"in a container, gone", "%/var/run/netns/x", (*cniNode).inContainer, policy.No, ""},
		{"in a container, there", "%/var/run/netns/y", (*cniNode).inContainer, policy.Yes, "exists"},
		{"in a container, in another directory, there", "/run/elsewhere/netns/y", (*cniNode).inContainer, policy.Yes, "exists"},
		{"in a container that may not look", "%/run/netns/x", func(n *cniNode) {
			n.inContainer()
			testkit.Must(n.t, os.Remove(filepath.Join(n.cfg.ProcDir, "1/root")))
		}, policy.Unknown, "what the node has at"},
		{"PID 1 hides its root", "%/run/netns/x", func(n *cniNode) { testkit.Must(n.t, os.Remove(n.path("run/netns"))) }, policy.No, ""},
		{"a process's, gone", "/proc/4194305/ns/net", nil, policy.No, ""},
		{"a process's, there", "/proc/300/ns/net", func(n *cniNode) { n.process(300) }, policy.Yes, "exists"},
		{"in another directory, gone", "/run/there-is-none/x", nil, policy.No, ""},
		{"in another directory, there", "/run", nil, policy.Unknown, "which is not read"},
		{"somewhere else", "/mnt/nfs/x", nil, policy.Unknown, "which is not read"},
		{"somewhere else by dots", "/run/../mnt/nfs/x", nil, policy.Unknown, "which is not read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.chunk = 1
			if c.change != nil {
				c.change(n)
			}
			path := c.path
			if path[0] == '%' {
				path = n.dir + path[1:]
			}
			name := n.cache("cbr0", id("gone"), "eth0", string(newUID()), path)
			n.address("cbr0", "10.244.0.9", id("gone")) // gets the namespace from the cache file
			looks := n.sweep()
			for _, name := range []string{name, "10.244.0.9"} {
				f := cniFile(t, looks, name)
				checkCNI(t, f, cniFacts{cni.Netns: c.want})
				wantDetail(t, f.Facts[cni.Netns], c.words)
			}
		})
	}
}

// inContainer gives PID 1 another root that contains the namespaces, and hides the node's /run.
func (n *cniNode) inContainer() {
	n.t.Helper()
	root := n.apart()
	tree := filepath.Join(root, n.dir)
	testkit.Must(n.t, os.MkdirAll(filepath.Join(tree, "run/netns"), 0o755))
	testkit.Must(n.t, os.MkdirAll(filepath.Join(tree, "var"), 0o755))
	testkit.Must(n.t, os.MkdirAll(filepath.Join(root, "run/elsewhere/netns"), 0o755))
	testkit.Must(n.t, os.Symlink(n.path("run"), filepath.Join(tree, "var/run"))) // absolute, like Debian's
	testkit.Must(n.t, os.WriteFile(filepath.Join(tree, "run/netns/y"), nil, 0o600))
	testkit.Must(n.t, os.WriteFile(filepath.Join(root, "run/elsewhere/netns/y"), nil, 0o600))
	testkit.Must(n.t, os.RemoveAll(n.path("run")))
	testkit.Must(n.t, os.Remove(n.path("var/run")))
}

// apart gives PID 1 a root directory of its own and returns it.
func (n *cniNode) apart() (root string) {
	n.t.Helper()
	root = n.t.TempDir()
	init := filepath.Join(n.cfg.ProcDir, "1")
	testkit.Must(n.t, os.WriteFile(filepath.Join(init, "mountinfo"), []byte("30 1 8:1 / / rw - ext4 /dev/sda1 rw\n"), 0o600))
	testkit.Must(n.t, os.Symlink(root, filepath.Join(init, "root")))
	return root
}

// process makes the namespace file of a process in the node's proc directory.
func (n *cniNode) process(pid int) {
	n.t.Helper()
	dir := filepath.Join(n.cfg.ProcDir, strconv.Itoa(pid), "ns")
	testkit.Must(n.t, os.MkdirAll(dir, 0o755))
	testkit.Must(n.t, os.WriteFile(filepath.Join(dir, "net"), nil, 0o600))
}

// TestCNINetnsUntold checks a sandbox whose files have no namespace: it is gone if every existing namespace is
// another's or was made long after the file.
func TestCNINetnsUntold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
	}{
		{"there is none", func(*cniNode) {}, policy.No},
		{"one without an owner", func(n *cniNode) { n.write("run/netns/x", "") }, policy.Unknown},
		{"a live pod's", func(n *cniNode) {
			n.write("run/netns/x", "")
			n.cache("cbr0", id("a live pod"), "eth0", string(newUID()), n.netns("x"))
		}, policy.No},
		{"a live pod's, and another", func(n *cniNode) {
			n.write("run/netns/x", "")
			n.write("run/netns/y", "")
			n.cache("cbr0", id("a live pod"), "eth0", string(newUID()), n.netns("x"))
		}, policy.Unknown},
		{"a live pod's whose file contradicts its name", func(n *cniNode) {
			n.write("run/netns/x", "")
			n.write("cni/results/other-"+id("a live pod")+"-eth0", cacheText("cbr0", id("a live pod"), "eth0", "", n.netns("x")))
		}, policy.Unknown},
		{"they cannot be read", func(n *cniNode) {
			testkit.Must(n.t, os.Remove(n.path("run/netns")))
			n.symlink("netns", "run/netns")
		}, policy.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.chunk = 1
			c.change(n)
			broken := "cbr0-" + id("gone") + "-eth0"
			n.write("cni/results/"+broken, "")
			n.address("cbr0", "10.244.0.9", id("another"))
			looks := n.sweep()
			checkCNI(t, cniFile(t, looks, broken), goneFacts(cniFacts{cni.Netns: c.want}))
			checkCNI(t, cniFile(t, looks, "10.244.0.9"), goneFacts(cniFacts{cni.Netns: c.want}))
		})
	}
}

// TestCNINetnsReal binds real namespaces. One made long after a file is not that of the file's sandbox, since a
// runtime makes it before it calls the plugin. Its age is that of its inode, which is made when it is bound at the
// latest.
func TestCNINetnsReal(t *testing.T) {
	testkit.NeedRoot(t)
	if !testkit.InNamespace(t) {
		return
	}
	n := newCNINode(t)
	bind := func(name string) {
		n.write("run/netns/"+name, "")
		done := make(chan error)
		go func() { // on a thread that ends with its namespace
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				err = unix.Mount("/proc/thread-self/ns/net", n.path("run/netns/"+name), "", unix.MS_BIND, "")
			}
			done <- err
		}()
		testkit.Must(t, <-done)
		t.Cleanup(func() { _ = unix.Unmount(n.path("run/netns/"+name), unix.MNT_DETACH) })
	}
	bind("cni-1")
	named := n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.path("run/netns/cni-1"))
	n.address("cbr0", "10.244.0.8", id("young"))
	n.address("cbr0", "10.244.0.9", id("old"))
	checkCNI(t, cniFile(t, n.sweep(), named), goneFacts(cniFacts{cni.Netns: policy.Yes}))
	testkit.Must(t, os.Remove(n.path("cni/results/"+named)))

	r := n.reader()
	set := r.netnsSet(t.Context())
	made := set.have[n.path("run/netns/cni-1")].since
	if age := time.Since(made); age < 0 || age > time.Minute {
		t.Fatalf("the namespace exists since %s", made)
	}
	f := facts{s: r.sweep(false), netns: set}
	f.findUnclaimed()
	for age, want := range map[time.Duration]policy.Truth{
		0: policy.Unknown, -time.Hour: policy.Unknown, 59 * time.Minute: policy.Unknown, 61 * time.Minute: policy.No, 24 * time.Hour: policy.No,
	} {
		if got := f.netnsOf(t.Context(), &owner{}, &cni.File{Changed: made.Add(-age)}); got.Truth != want {
			t.Errorf("for a file %s older than the namespace, netns is %s, want %s", age, got.Truth, want)
		}
	}
	if got := f.netnsOf(t.Context(), &owner{}, &cni.File{}); got.Truth != policy.Unknown {
		t.Errorf("for a new file netns is %s", got.Truth)
	}
	// After the unmount, the file below it has the same time and is no namespace.
	testkit.Must(t, unix.Unmount(n.path("run/netns/cni-1"), unix.MNT_DETACH))
	testkit.Must(t, os.Remove(n.path("run/netns/cni-1")))
	for _, name := range []string{"10.244.0.8", "10.244.0.9"} {
		checkCNI(t, cniFile(t, n.sweep(), name), goneFacts(nil))
	}
}

// TestCNITwoPods checks that a container of which two cache files have two pods belongs to neither.
func TestCNITwoPods(t *testing.T) {
	n := newCNINode(t)
	first := n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.netns("gone"))
	second := n.cache("cni-loopback", id("gone"), "lo", string(newUID()), n.netns("gone"))
	looks := n.sweep()
	for _, name := range []string{first, second} {
		f := cniFile(t, looks, name)
		checkCNI(t, f, cniFacts{cni.Tied: policy.No})
		if f.Container != "" || f.UID != "" {
			t.Errorf("%s belongs to %q, %q", name, f.Container, f.UID)
		}
	}
}

// TestCNIOldestNamespace checks that of several namespaces without an owner the oldest decides.
func TestCNIOldestNamespace(t *testing.T) {
	n := newCNINode(t)
	f := facts{s: n.reader().sweep(false)}
	f.netns.have = map[string]namespace{
		"/run/netns/a": {since: testkit.Noon}, "/run/netns/b": {since: testkit.Noon.Add(-48 * time.Hour)},
		"/run/netns/c": {since: testkit.Noon.Add(-time.Hour)},
	}
	f.findUnclaimed()
	if got := f.netnsOf(t.Context(), &owner{}, &cni.File{Changed: testkit.Noon.Add(-24 * time.Hour)}); got.Truth != policy.Unknown {
		t.Errorf("netns is %s", got.Truth)
	}
	f.s.claims["/run/netns/b"] = true
	f.findUnclaimed()
	if got := f.netnsOf(t.Context(), &owner{}, &cni.File{Changed: testkit.Noon.Add(-24 * time.Hour)}); got.Truth != policy.No {
		t.Errorf("netns is %s (%s)", got.Truth, got.Detail)
	}
}
