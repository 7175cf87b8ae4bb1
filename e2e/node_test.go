package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// node is one containerd with one kubelet, all in its own directory.
type node struct {
	host    *host
	version string
	dir     string
	number  int
	tag     string // suffix of its bridge's and its cgroup's name
	root    string // the kubelet's --root-dir
	pods    string // root/pods
	podLogs string // the kubelet's directory of pod logs
	// endpoint is a symbolic link to containerd's socket: the runtime that "auto" or a configuration selects can be
	// replaced.
	endpoint string
	ranges   string // of addresses
	cniDir   string // what the runtime has at /var/lib/cni; "": that of the machine
	runtime  *process
	kubelet  *process
	args     []string     // the kubelet's command line
	served   atomic.Value // the content at its staticPodURL
	url      string
	started  int64  // start of the running kubelet in its log
	port     string // its port
	readOnly string // its read-only port
}

// uid makes a UID unique to the node: a mount or cgroup of another node's pod with the same UID would keep this one,
// too.
func (n *node) uid(uid string) string {
	if len(uid) != 36 {
		return uid
	}
	return uid[:35] + strconv.Itoa(n.number)
}

// kubeletLog returns the one file to which all kubelets of the node write, and that orphan-reaper reads.
func (n *node) kubeletLog() string { return filepath.Join(n.dir, "kubelet.log") }

// newNode starts a containerd and a kubelet of the version. When the test ends, it ends them and removes their normal
// residue.
func newNode(t *testing.T, h *host, version string, number int) *node {
	t.Helper()
	n := offNode(t, h, version, number)
	n.boot(t)
	return n
}

// offNode is such a node before it is booted.
func offNode(t *testing.T, h *host, version string, number int) *node {
	t.Helper()
	dir := mkdir(t, filepath.Join(h.dir, fmt.Sprintf("%s-%d", version, number)))
	n := &node{host: h, version: version, number: number, dir: dir, tag: tag + string(rune('a'+number)), ranges: allRanges}
	n.root = mkdir(t, filepath.Join(n.dir, "root"))
	n.pods = filepath.Join(n.root, "pods")
	n.endpoint = filepath.Join(n.dir, "cri.sock")
	n.serve()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		content, _ := n.served.Load().(string)
		_, _ = io.WriteString(w, content)
	}))
	t.Cleanup(server.Close)
	n.url = server.URL
	t.Cleanup(func() { n.stop(t) })
	return n
}

func (n *node) boot(t *testing.T) {
	t.Helper()
	n.network(t)
	n.cgroup(t)
	n.runtime = n.startRuntime(t, engine)
	n.use(t, engine)
	n.importImage(t)
	n.configure(t)
	n.startKubelet(t)
}

// network gives CNI a bridge of its own. Without an address on the host, a gateway or masquerading it changes no
// setting of the host.
func (n *node) network(t *testing.T) {
	t.Helper()
	write(t, filepath.Join(mkdir(t, filepath.Join(n.dir, "cni")), "10-e2e.conflist"), fmt.Sprintf(`{
  "cniVersion": "0.4.0", "name": "%[1]s",
  "plugins": [{"type": "bridge", "bridge": "%[1]s", "ipam":
    {"type": "host-local", "ranges": %[2]s}}]
}`, n.tag, n.ranges))
}

// allRanges are the IPAM plugin's address ranges: each pod has an address of both.
const allRanges = `[[{"subnet": "10.213.77.0/24"}], [{"subnet": "fd00:213:77::/120"}]]`

// cgroup makes the kubelet's cgroup root: its hierarchy is below a name of ours, and no other kubepods of this
// machine is touched.
func (n *node) cgroup(t *testing.T) {
	t.Helper()
	const top = "/sys/fs/cgroup"
	if exists(top + "/cgroup.controllers") {
		mkdir(t, filepath.Join(top, n.tag))
		return
	}
	controllers, err := filepath.Glob(top + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range controllers {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() || filepath.Base(dir) == "unified" {
			continue
		}
		own := mkdir(t, filepath.Join(dir, n.tag))
		// A new cpuset allows no CPU until some are assigned (cpuset(7)).
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				write(t, filepath.Join(own, file), string(b))
			}
		}
	}
}

func (n *node) socket(name string) string { return filepath.Join(n.dir, name+".sock") }

// use makes the runtime with that name the one behind the endpoint.
func (n *node) use(t *testing.T, name string) {
	t.Helper()
	next := n.endpoint + ".next"
	if err := os.Symlink(n.socket(name), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, n.endpoint); err != nil {
		t.Fatal(err)
	}
}

// startRuntime starts a runtime with its own root, state and socket.
func (n *node) startRuntime(t *testing.T, name string) *process {
	t.Helper()
	config := filepath.Join(n.dir, name+".toml")
	if engine == crio {
		return n.listens(t, n.startCRIO(t, name, config))
	}
	write(t, config, fmt.Sprintf(`version = 2
root = "%[1]s/%[2]s/root"
state = "%[1]s/%[2]s/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "%[3]s"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/%[2]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[4]s"
  # Sandboxes ask for an oom_score_adj of -998; lowering it needs CAP_SYS_RESOURCE, which
  # root has not in every container.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "%[5]s"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[1]s/cni"
`, n.dir, name, n.socket(name), image.Name, os.Getenv(snapshotter)))
	args := []string{"containerd", "--config", config}
	if n.cniDir != "" { // no configuration has libcni's directory
		within := []string{"unshare", "--mount", "--", "sh", "-c", `mount --bind "$0" "$1" && shift && exec "$@"`, n.cniDir, mkdirAll(cniDir)}
		args = append(within, args...)
	}
	return n.listens(t, launch(t, name, filepath.Join(n.dir, name+".log"), args...))
}

// listens waits until the runtime accepts connections.
func (n *node) listens(t *testing.T, p *process) *process {
	t.Helper()
	eventually(t, 60*time.Second, func() string {
		if !p.Running() {
			return p.name + " has ended: " + p.Tail(5)
		}
		c, err := net.Dial("unix", n.socket(p.name))
		if err != nil {
			return err.Error()
		}
		_ = c.Close()
		return ""
	})
	return p
}

// stop ends everything in order: the pods, the kubelet, the runtimes; then it removes their residue.
func (n *node) stop(t *testing.T) {
	if n.kubelet != nil && n.kubelet.Running() {
		manifests, err := filepath.Glob(filepath.Join(n.dir, "manifests", "*"))
		if err != nil {
			t.Error(err)
		}
		for _, m := range manifests {
			_ = os.Remove(m)
		}
		// The kubelet then also tears down the volumes and removes the directories.
		left := func() []string {
			dirs, err := filepath.Glob(filepath.Join(n.pods, "5a11fe00-*"))
			if err != nil {
				t.Error(err)
			}
			return append(n.tasks(), dirs...)
		}
		for end := time.Now().Add(60 * time.Second); time.Now().Before(end) && len(left()) > 0; {
			time.Sleep(200 * time.Millisecond)
		}
		if all := left(); len(all) > 0 {
			t.Errorf("the kubelet has not torn down its pods: %v\n%s", all, n.kubelet.Tail(20))
		}
		n.kubelet.end(t)
	}
	for _, path := range n.host.mounts() {
		if strings.HasPrefix(path, n.pods+"/") && !t.Failed() {
			t.Errorf("%s is still mounted", path)
		}
	}
	if n.runtime != nil && n.runtime.Running() {
		n.runtime.end(t)
	}
	n.dropMounts(t)
	for _, link := range n.host.links() {
		if link == n.tag {
			must(t, "ip", "link", "delete", link)
		}
	}
	n.dropCgroups()
}

// dropMounts removes the kubelet's bind mount of its root directory on itself, which it does not remove, and all
// other mounts below the node.
func (n *node) dropMounts(t *testing.T) {
	t.Helper()
	for _, path := range slices.Backward(n.host.mounts()) {
		if strings.HasPrefix(path, n.dir+"/") {
			if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				t.Errorf("umount %s: %v", path, err)
			}
		}
	}
}

// dropCgroups removes the hierarchy that the kubelet does not remove.
func (n *node) dropCgroups() {
	for _, dir := range slices.Backward(n.host.cgroups()) {
		if strings.Contains(dir, "/"+n.tag) {
			_ = unix.Rmdir(dir) // the final check finds what remains
		}
	}
}

// importImage adds the image to CRI, and to containerd's namespace for containers outside CRI.
func (n *node) importImage(t *testing.T) {
	t.Helper()
	if engine == crio {
		n.importIntoCRIO(t)
		return
	}
	for _, namespace := range []string{"k8s.io", "e2e"} {
		must(t, "ctr", "-a", n.socket(engine), "-n", namespace, "images", "import", filepath.Join(n.host.dir, "image.tar"))
	}
}

// tasks returns the lines "CONTAINER PID STATUS" of the tasks in containerd, or CRI-O's list of running ones.
func (n *node) tasks() []string {
	if engine == crio {
		return n.runsInCRIO()
	}
	out, err := runQuietly("ctr", "-a", n.socket(engine), "--connect-timeout", "2s", "-n", "k8s.io", "tasks", "ls")
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[1:]
}
