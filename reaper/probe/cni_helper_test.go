package probe

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// realClock tells the time: files have real times.
type realClock struct{}

func (realClock) Now() policy.Instant {
	var up unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return policy.Instant{Wall: time.Now(), BootID: "boot", Boot: time.Duration(up.Nano())}
}

// cniNode is a node with CNI's directories and a runtime.
type cniNode struct {
	*testNode
	cri        *fakecri.Server
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	chunk      int
}

func newCNINode(t *testing.T) *cniNode {
	t.Helper()
	n := &cniNode{testNode: newNode(t), chunk: cniChunk}
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), fakecri.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	n.cri = s
	n.cfg.Waive, n.cfg.RuntimeEndpoint, n.cfg.ProcDir, n.cfg.Clock = false, s.Endpoint(), testkit.ProcTree(t), realClock{}
	n.cfg.CNICacheDirs, n.cfg.CNIDataDirs = []string{n.path("cni")}, []string{n.path("cni/networks")}
	n.cfg.CNIConfDir = n.path("net.d")
	n.cfg.NetnsDirs = []string{n.path("run/netns"), n.path("var/run/netns")}
	n.cfg.CNITaskDirs = []string{n.path("run/task/*"), n.path("run/runc")}
	n.cfg.CNIStores = []string{n.path("storage/*-containers"), n.path("docker/containers")}
	n.mkdir("run/netns", "var", "cni")
	n.symlink("../run", "var/run")
	n.write("net.d/10-net.conflist", `{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"bridge","ipam":{"type":"host-local","dataDir":"`+n.path("cni/networks")+`"}}]}`)
	n.sandbox(id("a live pod"), true)
	return n
}

// id makes a container ID of a name for it.
func id(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }

func (n *cniNode) sandbox(id string, ready bool) {
	s := fakecri.Pod{UID: string(newUID()), Namespace: "shop", Name: "db-0", NotReady: !ready}.Sandbox()
	s.Id = id
	n.sandboxes = append(n.sandboxes, s)
	n.cri.SetSandboxes(n.sandboxes...)
}

func (n *cniNode) container(id, sandbox string, running bool) {
	c := fakecri.Pod{UID: string(newUID()), Namespace: "shop", Name: "db-0", Exited: 1}.Containers()[0]
	if running {
		c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	c.Id, c.PodSandboxId = id, sandbox
	n.containers = append(n.containers, c)
	n.cri.SetContainers(n.containers...)
}

// cacheText is a cniCacheV1 as containerd writes it; no UID is one from before 1.6, and
// "other" one of another engine.
func cacheText(network, id, ifName, uid, netns string) string {
	args := ""
	if uid != "other" {
		args = `["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","db-0"],["K8S_POD_INFRA_CONTAINER_ID","` + id + `"],`
	}
	if uid != "" && uid != "other" {
		args += `["K8S_POD_UID","` + uid + `"],`
	}
	config := base64.StdEncoding.EncodeToString([]byte(`{"cniVersion":"0.4.0","name":"` + network + `","plugins":[{"type":"bridge","bridge":"br0",` +
		`"isGateway":true,"ipMasq":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.0.0/24"}]]}},{"type":"portmap"}]}`))
	return `{"kind":"cniCacheV1","containerId":"` + id + `","config":"` + config + `","ifName":"` + ifName + `","networkName":"` + network +
		`","cniArgs":[` + args + `["IgnoreUnknown","1"]],"capabilityArgs":{"dns":{"Servers":["127.0.0.1"],"Searches":["."],"Options":null}},` +
		`"result":{"cniVersion":"0.4.0","dns":{},"interfaces":[{"mac":"4e:4a:ce:38:9a:a5","name":"br0"},{"mac":"4e:2a:9a:bb:67:25","name":"` + ifName +
		`","sandbox":"` + netns + `"}],"ips":[{"address":"10.244.0.8/24","gateway":"10.244.0.1","interface":1,"version":"4"}]}}`
}

// cache writes a cache file and returns its name.
func (n *cniNode) cache(network, id, ifName, uid, netns string) string {
	n.t.Helper()
	name := network + "-" + id + "-" + ifName
	n.write("cni/results/"+name, cacheText(network, id, ifName, uid, netns))
	return name
}

// address writes a reservation of host-local.
func (n *cniNode) address(network, ip, id string) {
	n.t.Helper()
	n.write("cni/networks/"+network+"/"+ip, id+"\r\neth0")
}

// netns is the path of a network namespace that is not there, as a cache file tells it.
func (n *cniNode) netns(name string) string { return n.path("var/run/netns/" + name) }

// sweep returns all looks of one sweep.
func (n *cniNode) sweep() []cni.Look {
	n.t.Helper()
	s := n.probe().SweepCNI()
	s.chunk = n.chunk
	return sweepAll(n.t, s)
}

func sweepAll(t *testing.T, s *CNISweep) []cni.Look {
	t.Helper()
	defer s.Close()
	var looks []cni.Look
	for {
		look, ok := s.Next(t.Context())
		if !ok {
			return looks
		}
		looks = append(looks, look)
	}
}

// file finds one file in looks.
func cniFile(t *testing.T, looks []cni.Look, name string) cni.File {
	t.Helper()
	var found []cni.File
	for _, l := range looks {
		for _, f := range l.Files {
			if f.Name == name {
				found = append(found, f)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d files of the name %q in %d looks: %s", len(found), name, len(looks), errorsOf(looks))
	}
	return found[0]
}

func errorsOf(looks []cni.Look) string {
	var all []string
	for _, l := range looks {
		all = append(all, l.Errors...)
	}
	return strings.Join(all, "; ")
}

// cniFacts are what a test expects of a file.
type cniFacts map[cni.FactName]policy.Truth

// goneFacts are those of a file whose container is gone, but for some.
func goneFacts(but cniFacts) cniFacts {
	all := cniFacts{
		cni.Tied: policy.Yes, cni.Listed: policy.No, cni.Ready: policy.No, cni.Alive: policy.No,
		cni.Netns: policy.No, cni.Foreign: policy.No,
	}
	maps.Copy(all, but)
	return all
}

func checkCNI(t *testing.T, f cni.File, want cniFacts) {
	t.Helper()
	for name, truth := range want {
		got := f.Facts[name]
		if got.Truth != truth {
			t.Errorf("%s of %s is %s (%s), want %s", name, f.Name, got.Truth, got.Detail, truth)
		}
		if name != cni.Ready && got.Truth == policy.Unknown && got.Detail == "" {
			t.Errorf("%s of %s is unknown without a word why", name, f.Name)
		}
	}
}
