package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// node is a Debian booted in a container, with a kubelet and a runtime.
type node struct {
	kit.Machine

	name    string
	dir     string
	address string
	pods    string // network of its pods
}

// setUp prepares the container, in a mount namespace of its own: the tree below a tmpfs for changes. It joins a
// cgroup of its own in every hierarchy, which is the node's root.
const setUp = `set -e
dir=$1 tree=$2 cgroup=$3
mkdir -p /run/systemd
mount -t tmpfs -o mode=0755 tmpfs /run/systemd
mount -t tmpfs -o mode=0755 tmpfs "$dir/over"
mkdir -m 0755 "$dir/over/upper" "$dir/over/work"
mount -t overlay -o "lowerdir=$dir/layer:$tree,upperdir=$dir/over/upper,workdir=$dir/over/work" overlay "$dir/root"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control; done
	mkdir "/sys/fs/cgroup/$cgroup"
	echo $$ >"/sys/fs/cgroup/$cgroup/cgroup.procs"
else
	for hierarchy in /sys/fs/cgroup/*; do
		[ ! -L "$hierarchy" ] && [ -e "$hierarchy/cgroup.procs" ] || continue
		mkdir "$hierarchy/$cgroup"
		# A new cpuset allows no CPU until it is told which (cpuset(7)).
		for file in cpuset.cpus cpuset.mems; do
			[ ! -e "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
		done
		echo $$ >"$hierarchy/$cgroup/cgroup.procs"
	done
fi
shift 3
exec systemd-nspawn --boot --register=no --keep-unit --console=pipe --capability=all \
	--link-journal=no --resolv-conf=off --timezone=off --directory="$dir/root" \
	--system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self add_key keyctl bpf' "$@"
`

// prepare turns the booted container into a node. Its runtime changes its cgroups. The kernel settings that a kubelet
// wants (setupKernelTunables in pkg/kubelet/cm) are the machine's, so it reads them from files. It does not read the
// machine's kernel log.
const prepare = `set -e
for cgroup in /sys/fs/cgroup/*; do
	! mountpoint -q "$cgroup" || mount -o remount,bind,rw "$cgroup"
done
mkdir /run/sysctl
while read -r name value; do
	file=/run/sysctl/$(basename "$name")
	echo "$value" >"$file"
	mount --bind "$file" "/proc/sys/$name"
done <<-'LIST'
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
LIST
ln -sf /dev/null /dev/kmsg
`

// boot starts the node's container; start continues with it.
func (c *cluster) boot(t *testing.T, name string, number int) *node {
	t.Helper()
	n := &node{
		name: name, dir: mkdir(t, filepath.Join(c.dir, name)),
		address: fmt.Sprintf("10.213.78.%d", 10+number), pods: fmt.Sprintf("10.213.%d.0/24", 80+number),
	}
	for _, dir := range []string{"over", "root", "kubelet"} {
		mkdir(t, filepath.Join(n.dir, dir))
	}
	n.configure(t, c)
	runc, err := filepath.EvalSymlinks("/usr/sbin/runc")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-c", setUp, "sh", n.dir, tree, prefix + "-" + name, "--machine=" + name, "--network-bridge=" + bridge,
		"--bind=" + filepath.Join(n.dir, "kubelet") + ":/var/lib/kubelet", "--tmpfs=/var/lib/containerd",
		"--bind-ro=" + filepath.Join(bin, "kubelet") + ":/usr/local/bin/kubelet", "--bind-ro=" + program + ":/usr/local/bin/orphan-reaper",
		"--bind-ro=" + filepath.Join(place, "images") + ":/images", "--bind-ro=" + runc + ":/usr/bin/runc",
	}
	for _, path := range []string{"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr", "/usr/lib/cni"} {
		args = append(args, "--bind-ro="+path)
	}
	n.Machine = kit.Boot(t, logFile(name), unix.SysProcAttr{}, args...)
	t.Cleanup(func() { n.stop(t) })
	return n
}

// kubeletLog is the file to which a node's kubelet writes. The daemon reads a node's journal by the node's own journalctl only if
// PID 1 is proved to be the node's, which it is not in a container.
const kubeletLog = "/var/lib/kubelet/kubelet.log"

// configure writes the administrator's files.
func (n *node) configure(t *testing.T, c *cluster) {
	t.Helper()
	crt, key := c.ca.sign(t, n.name, "system:node:"+n.name, []string{"system:nodes"}, n.address, n.name)
	conf := c.ca.kubeconfig(t, n.name+"-client", "system:node:"+n.name, "system:nodes")
	layer := filepath.Join(n.dir, "layer")
	for path, text := range map[string]string{
		"etc/machine-id":                        fmt.Sprintf("%032x\n", n.name), // without it, the first boot would enable every unit
		"etc/hostname":                          n.name + "\n",
		"etc/hosts":                             "127.0.0.1 localhost " + n.name + "\n",
		"etc/kubernetes/kubelet.conf":           read(t, conf),
		"etc/systemd/system/containerd.service": "[Service]\nType=notify\nExecStart=/usr/bin/containerd\nDelegate=yes\nKillMode=process\nLimitNOFILE=65536\n",
		"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml " +
			"--kubeconfig=/etc/kubernetes/kubelet.conf --node-ip=" + n.address + " --hostname-override=" + n.name + " --v=2\nKillMode=process\nStandardError=append:" + kubeletLog + "\n",
		"etc/containerd/config.toml": fmt.Sprintf(`version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
`, image.Name),
		"etc/cni/net.d/10-cluster.conflist": fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "cluster", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam":
    {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`, n.pods),
	} {
		lay(t, filepath.Join(layer, path), text)
	}
	kubelet := filepath.Join(n.dir, "kubelet")
	lay(t, filepath.Join(kubelet, "pki", "ca.crt"), read(t, c.ca.file("ca.crt")))
	lay(t, filepath.Join(kubelet, "pki", "kubelet.crt"), read(t, crt))
	lay(t, filepath.Join(kubelet, "pki", "kubelet.key"), read(t, key))
	lay(t, filepath.Join(kubelet, "config.yaml"), `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /var/lib/kubelet/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: /var/lib/kubelet/pki/kubelet.crt
tlsPrivateKeyFile: /var/lib/kubelet/pki/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
resolvConf: ""
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 5s
nodeStatusUpdateFrequency: 2s
`)
}

// start waits until the node's systemd runs, and starts its runtime and its kubelet.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.Booted(t, patience)
	net := []string{"nsenter", "--target", strconv.Itoa(n.Leader), "--net", "ip"}
	for _, args := range [][]string{
		{"address", "add", n.address + "/24", "dev", "host0"},
		{"link", "set", "host0", "up"},
		{"route", "add", "default", "via", bridgeAddress},
	} {
		command(t, append(net, args...)...)
	}
	command(t, "ip", "route", "add", n.pods, "via", n.address) // route to its pods
	n.Run(t, "sh", "-c", prepare)
	n.Run(t, "systemctl", "start", "containerd")
	for _, name := range []string{"pause", imageTag} {
		n.Run(t, "ctr", "--namespace", "k8s.io", "images", "import", "/images/"+name+".tar")
	}
	n.Run(t, "systemctl", "start", "kubelet")
}

// stop saves the node's journal and shuts the node down.
func (n *node) stop(t *testing.T) {
	t.Helper()
	if n.Leader != 0 && n.Running() {
		if t.Failed() {
			n.KeepJournal(logFile(n.name + "-journal"))
			if b, err := os.ReadFile(n.Path(kubeletLog)); err == nil {
				_ = os.WriteFile(logFile(n.name+"-kubelet"), b, 0o600)
			}
		}
		// If PID 1 ends, the kernel ends its whole namespace (pid_namespaces(7)).
		_ = unix.Kill(n.Leader, unix.SIGKILL)
	} else if n.Running() {
		_ = n.Cmd.Process.Kill()
	}
	select {
	case <-n.Done:
	case <-time.After(20 * time.Second):
		t.Errorf("%s did not end: %s", n.name, n.Tail(20))
	}
	eventually(t, 20*time.Second, func() string { // shortly after its processes have ended
		if err := dropCgroups(n.name); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (n *node) podDir(uid string, elements ...string) string {
	return n.Path(append([]string{"/var/lib/kubelet/pods", uid}, elements...)...)
}

// kubeletTail returns the end of the kubelet's log.
func (n *node) kubeletTail() string {
	if n.Leader == 0 {
		return ""
	}
	b, err := os.ReadFile(n.Path(kubeletLog))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
