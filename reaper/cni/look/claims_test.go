package look

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// inNetns puts a process into the namespace bound at run/netns/x: its link in the node's proc directory leads to the
// same file.
func (n *cniNode) inNetns(pid int) {
	n.t.Helper()
	dir := filepath.Join(n.cfg.ProcDir, strconv.Itoa(pid))
	testkit.Must(n.t, os.MkdirAll(filepath.Join(dir, "ns"), 0o755))
	testkit.Must(n.t, os.Link(n.path("run/netns/x"), filepath.Join(dir, "ns/net")))
}

// crioInfo is a part of the verbose status of a sandbox in CRI-O 1.34.
func crioInfo(netns string) map[string]string {
	return map[string]string{"info": `{"image":"registry.k8s.io/pause:3.10","pid":812,"runtimeSpec":{"ociVersion":"1.2.0","process":{"args":["/pause"]},` +
		`"linux":{"resources":{},"namespaces":[{"type":"pid"},{"type":"network","path":"` + netns + `"},{"type":"ipc","path":"/var/run/ipcns/x"}]}}}`}
}

// TestCNIClaims checks that the owner of a namespace that no cache file has is found. With CRI-O and Calico every
// living pod has such a namespace, which kept every cache file of dead pods.
func TestCNIClaims(t *testing.T) {
	live, gone := id("a live pod"), id("gone")
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
	}{
		{"without an owner", func(*cniNode) {}, policy.Unknown},
		{"the runtime reports it", func(n *cniNode) { n.cri.SetInfo(live, crioInfo(n.netns("x"))) }, policy.No},
		{"the runtime reports it, of a sandbox that is not ready", func(n *cniNode) {
			n.sandbox(id("stopped"), false)
			n.cri.SetInfo(id("stopped"), crioInfo(n.netns("x")))
		}, policy.No},
		{"the runtime reports another", func(n *cniNode) { n.cri.SetInfo(live, crioInfo(n.netns("y"))) }, policy.Unknown},
		{"the runtime fails", func(n *cniNode) {
			n.cri.SetInfo(live, crioInfo(n.netns("x")))
			n.cri.SetFault(fakecri.PodSandboxStatus, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
		}, policy.Unknown},
		{"the runtime reports nonsense", func(n *cniNode) { n.cri.SetInfo(live, map[string]string{"info": "{"}) }, policy.Unknown},
		{"the node's own", func(n *cniNode) { n.inNetns(1) }, policy.No},
	} {
		for _, chunk := range []int{1, usualChunk} {
			t.Run(c.name, func(t *testing.T) {
				n := newCNINode(t)
				n.chunk = chunk
				n.write("run/netns/x", "")
				c.change(n)
				name := n.cache("k8s-pod-network", gone, "eth0", string(newUID()), "")
				n.cache("k8s-pod-network", live, "eth0", string(newUID()), "")
				n.address("cbr0", "10.244.0.9", id("another"))
				looks := n.sweep()
				checkCNI(t, cniFile(t, looks, name), cniFacts{cni.Netns: c.want})
				checkCNI(t, cniFile(t, looks, "10.244.0.9"), cniFacts{cni.Netns: c.want})
			})
		}
	}
}

// TestCNIAskedOnce checks that a sweep asks for each sandbox once, and for none if every namespace has a known owner.
func TestCNIAskedOnce(t *testing.T) {
	n := newCNINode(t)
	n.chunk = 1
	for i := range 5 {
		n.address("cbr0", fmt.Sprintf("10.244.0.%d", i+2), id(strconv.Itoa(i)))
	}
	n.sweep()
	if got := n.cri.Calls(fakecri.PodSandboxStatus); got != 0 {
		t.Errorf("asked %d times without a namespace", got)
	}
	n.write("run/netns/x", "")
	n.sweep()
	if got := n.cri.Calls(fakecri.PodSandboxStatus); got != 1 {
		t.Errorf("asked %d times", got)
	}
}

// TestCNIRuntimeHangs checks that a look waits for one sandbox's response only, however many the runtime does not
// answer.
func TestCNIRuntimeHangs(t *testing.T) {
	n := newCNINode(t)
	n.patience = 2 * time.Second
	for i := range 20 {
		n.sandbox(id(strconv.Itoa(i)), true)
	}
	n.cri.SetFault(fakecri.PodSandboxStatus, fakecri.Fault{Hang: true})
	n.write("run/netns/x", "")
	n.address("cbr0", "10.244.0.9", id("gone"))
	checkCNI(t, cniFile(t, n.sweep(), "10.244.0.9"), cniFacts{cni.Netns: policy.Unknown})
	if got := n.cri.Calls(fakecri.PodSandboxStatus); got != 1 {
		t.Errorf("asked %d times", got)
	}
}

// TestCNIReusedPID checks /proc/PID/ns/net of dockershim or cri-dockerd when another process has the PID by now.
func TestCNIReusedPID(t *testing.T) {
	started := func(n *cniNode, ago time.Duration) {
		start := (realClock{}.Now().Boot - ago) / (10 * time.Millisecond)
		text := fmt.Sprintf("300 (x) S 1%s %d 0\n", " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", start)
		testkit.Must(n.t, os.WriteFile(filepath.Join(n.cfg.ProcDir, "300/stat"), []byte(text), 0o600))
	}
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
	}{
		{"its own process, for all that is known", func(n *cniNode) { n.inNetns(300) }, policy.Yes},
		{"one of the node's", func(n *cniNode) { n.inNetns(1); n.inNetns(300) }, policy.No},
		{"started long after the file was written", func(n *cniNode) { n.inNetns(300); started(n, -2*time.Hour) }, policy.No},
		{"started soon after the file was written", func(n *cniNode) { n.inNetns(300); started(n, -30*time.Minute) }, policy.Yes},
		{"started before the file was written", func(n *cniNode) { n.inNetns(300); started(n, time.Minute) }, policy.Yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.write("run/netns/x", "")
			n.cache("cbr0", id("another"), "eth0", string(newUID()), n.netns("x"))
			c.change(n)
			name := n.cache("cbr0", id("gone"), "eth0", string(newUID()), "/proc/300/ns/net")
			checkCNI(t, cniFile(t, n.sweep(), name), cniFacts{cni.Netns: c.want})
		})
	}
}

// TestCNIConfDirs checks that without a configured directory the configurations of K3s and RKE2 are read, too.
func TestCNIConfDirs(t *testing.T) {
	const conf = `{"name":"elsewhere","type":"bridge","ipam":{"type":"host-local","dataDir":"%s"}}`
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
	}{
		{"nowhere", func(*cniNode) {}, policy.Yes},
		{"K3s", func(n *cniNode) {
			n.write("var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conf", fmt.Sprintf(conf, n.path("data")))
		}, policy.No},
		{"K3s, and another was named", func(n *cniNode) {
			n.write("var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conf", fmt.Sprintf(conf, n.path("data")))
			n.cfg.ConfDirSet = true
		}, policy.Yes},
		{"K3s, and the usual one is not there", func(n *cniNode) {
			n.write("var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conf", fmt.Sprintf(conf, n.path("data")))
			n.cfg.ConfDir = n.path("none")
		}, policy.No},
		{"K3s, whose file is broken", func(n *cniNode) { n.write("var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conf", "{") }, policy.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			c.change(n)
			n.cfg.DataDirs = append(n.cfg.DataDirs, n.path("data"))
			n.write("data/elsewhere/10.42.0.9", id("gone"))
			checkCNI(t, cniFile(t, n.sweep(), "10.42.0.9"), cniFacts{cni.Foreign: c.want})
		})
	}
}

// TestCNIAttachments checks an address in the network of an attachment (Multus), which no configuration on the node
// has: its own cache file is gone, and other pods use the network.
func TestCNIAttachments(t *testing.T) {
	live, gone := id("a live pod"), id("gone")
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		want   policy.Truth
	}{
		{"no pod uses it", func(*cniNode) {}, policy.Yes},
		{"a living pod uses it", func(n *cniNode) {
			n.write("cni/multus/results/tenant-"+live+"-net1", cacheText("tenant", live, "net1", string(newUID()), n.netns("x")))
		}, policy.No},
		{"a living pod uses another", func(n *cniNode) {
			n.write("cni/multus/results/tenant2-"+live+"-net1", cacheText("tenant2", live, "net1", string(newUID()), n.netns("x")))
		}, policy.Yes},
		{"another engine's container uses it", func(n *cniNode) {
			n.write("cni/results/tenant-"+live+"-net1", cacheText("tenant", live, "net1", "other", n.netns("x")))
		}, policy.Yes},
		{"Multus has its delegates", func(n *cniNode) { n.write("cni/multus/"+gone, "[]") }, policy.No},
		{"Multus has another's delegates", func(n *cniNode) { n.write("cni/multus/"+id("another"), "[]") }, policy.Yes},
		{"a living pod uses it, and another engine has the container", func(n *cniNode) {
			n.write("cni/multus/results/tenant-"+live+"-net1", cacheText("tenant", live, "net1", string(newUID()), n.netns("x")))
			n.mkdir("docker/containers/" + gone)
		}, policy.Yes},
	} {
		for _, chunk := range []int{1, usualChunk} {
			t.Run(c.name, func(t *testing.T) {
				n := newCNINode(t)
				n.chunk = chunk
				n.address("tenant", "192.168.5.9", gone)
				c.change(n)
				checkCNI(t, cniFile(t, n.sweep(), "192.168.5.9"), cniFacts{cni.Foreign: c.want})
			})
		}
	}
}
