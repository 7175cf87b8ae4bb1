package look

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var (
	newUID     = testkit.NewUID
	wantDetail = testkit.WantDetail
	stick      = testkit.Stick
)

type realClock struct{}

func (realClock) Now() policy.Instant {
	var up unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return policy.Instant{Wall: time.Now(), BootID: "boot", Boot: time.Duration(up.Nano())}
}

// cniNode is a node with CNI's directories and a runtime.
type cniNode struct {
	t          testing.TB
	dir        string
	cfg        Reader
	cgroupRoot string
	waive      bool // the runtime is waived
	fallback   bool // without openat2
	patience   time.Duration
	chunk      int
	contents   bool
	cri        *fakecri.Server
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func newCNINode(t *testing.T) *cniNode {
	t.Helper()
	n := &cniNode{t: t, dir: t.TempDir(), patience: 20 * time.Second, chunk: usualChunk}
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), fakecri.Options{})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	n.cri, n.cgroupRoot = s, n.path("cgroup")
	n.cfg = Reader{
		NodeRoot: n.dir, CacheDirs: []string{n.path("cni")}, DataDirs: []string{n.path("cni/networks")}, ConfDir: n.path("net.d"),
		NetnsDirs: []string{n.path("run/netns"), n.path("var/run/netns")}, TaskDirs: []string{n.path("run/task/*"), n.path("run/runc")},
		Stores: []string{n.path("storage/*-containers"), n.path("docker/containers")}, ProcDir: testkit.ProcTree(t), Now: realClock{}.Now,
	}
	n.mkdir("cgroup/kubepods.slice", "run/netns", "var", "cni")
	n.symlink("../run", "var/run")
	n.write("net.d/10-net.conflist", `{"cniVersion":"1.0.0","name":"cbr0","plugins":[`+
		`{"type":"bridge","ipam":{"type":"host-local","dataDir":"`+n.path("cni/networks")+`"}}]}`)
	n.sandbox(id("a live pod"), true)
	return n
}

func (n *cniNode) path(rel string) string { return filepath.Join(n.dir, rel) }

func (n *cniNode) mkdir(rels ...string) {
	n.t.Helper()
	for _, rel := range rels {
		testkit.Must(n.t, os.MkdirAll(n.path(rel), 0o755))
	}
}

func (n *cniNode) write(rel, text string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	testkit.Must(n.t, os.WriteFile(n.path(rel), []byte(text), 0o600))
}

func (n *cniNode) symlink(target, rel string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(rel))
	testkit.Must(n.t, os.Symlink(target, n.path(rel)))
}

// reader returns a Reader of the node as configured now.
func (n *cniNode) reader() *Reader {
	n.t.Helper()
	r := n.cfg
	open, err := beneath.New(n.fallback)
	testkit.Must(n.t, err)
	if !n.fallback && open.Fallback() != nil {
		testkit.Skip(n.t, "needs openat2: ", open.Fallback())
	}
	r.Open, r.Guard, r.Chunk, r.Node = open, &bounded.Guard{Patience: n.patience}, n.chunk, n
	return &r
}

func (n *cniNode) sockets() cri.Sockets {
	return cri.NamedSocket(n.cri.Endpoint(), "--runtime-endpoint")
}

// Containers reads like package probe: the node's own namespaces are visible, and no kubelet is searched for.
func (n *cniNode) Containers(ctx context.Context, _ *bounded.Handle) probe.Containers {
	cgroups := cgroup.Reader{Root: n.cgroupRoot, Guard: &bounded.Guard{Patience: n.patience}}
	yes := policy.Fact{Truth: policy.Yes}
	a := probe.Containers{Node: policy.Node{MayEnforce: yes, Agrees: yes}, Cgroups: cgroups.ContainerIDs(ctx), Sockets: n.sockets()}
	if n.waive {
		a.Unasked = errors.New("not asked")
		return a
	}
	for _, path := range a.Sockets.Paths {
		a.Lists = append(a.Lists, cri.List(ctx, path, n.patience, cri.MaxAnswer))
	}
	return a
}

func (n *cniNode) begin() *Sweep { return n.reader().sweep(n.contents) }

// id returns a container ID for the name.
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

// cacheText is a cniCacheV1 as containerd writes it; without a UID it is from before 1.6, and "other" is another
// engine's.
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

// netns is the path of a nonexistent network namespace, as in a cache file.
func (n *cniNode) netns(name string) string { return n.path("var/run/netns/" + name) }

// sweep returns all looks of one sweep.
func (n *cniNode) sweep() []cni.Look {
	n.t.Helper()
	return sweepAll(n.t, n.begin())
}

func sweepAll(tb testing.TB, s *Sweep) []cni.Look {
	tb.Helper()
	defer s.Close()
	var looks []cni.Look
	for {
		look, ok := s.Next(tb.Context())
		if !ok {
			return looks
		}
		looks = append(looks, look)
	}
}

// cniFile returns the only file with the name.
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
		t.Fatalf("%d files with the name %q in %d looks: %s", len(found), name, len(looks), errorsOf(looks))
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

type cniFacts map[cni.FactName]policy.Truth

// goneFacts are the facts of a file whose container is gone, with some replaced.
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
			t.Errorf("%s of %s is unknown without a reason", name, f.Name)
		}
	}
}
