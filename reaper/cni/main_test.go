package cni

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// testNode is a node below a directory: it has booted when the test began, and it is two days later. The files are an hour
// older than the boot, unless young is called.
type testNode struct {
	tb       testing.TB
	dir      string
	cfg      Config
	cri      *fakecri.Server
	boxes    []*runtimeapi.PodSandbox
	now      judge.Instant
	snapshot judge.Snapshot
	changes  changes
	events   []judge.Event
	// retention of the archives.
	retention time.Duration
	refuse    bool // the ledger refuses the events
}

// The tests mount for real, in a mount namespace of their own.
func TestMain(m *testing.M) { testkit.Main(m) }

const later = 48 * time.Hour

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func newNode(tb testing.TB) *testNode {
	tb.Helper()
	n := &testNode{tb: tb, dir: tb.TempDir(), changes: kernel{}, retention: 2 * later}
	n.now = judge.Instant{Wall: time.Now().Add(later), BootID: "b", Boot: later + 30*time.Minute}
	n.snapshot = judge.Snapshot{At: n.now, Node: judge.Node{KubeletKnown: judge.Fact{Truth: judge.Yes}, SeesMounts: judge.Fact{Truth: judge.Yes}}}
	for _, dir := range []string{"root/run/netns", "cni", "conf", "state"} {
		must(tb, os.MkdirAll(n.path(dir), 0o755))
	}
	must(tb, os.Symlink("/run", n.path("root/var-run"))) // an absolute link leads below the node's root
	n.write("conf/10-cbr0.conflist", `{"name":"cbr0","plugins":[{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.0.0/24"}]]}},{"type":"portmap"}]}`)
	n.cfg = Config{
		Dir: n.path("cni"), ConfDir: n.path("conf"), StateDir: n.path("state"), OlderThan: 24 * time.Hour,
		Sockets: []string{n.path("s")}, Root: n.path("root"),
	}
	var err error
	n.cri, err = fakecri.Start(tb.Context(), n.path("s"), fakecri.Options{})
	must(tb, err)
	tb.Cleanup(n.cri.Close)
	n.sandbox("living", true)
	return n
}

func (n *testNode) path(name string) string { return filepath.Join(n.dir, name) }

// write writes a file that is older than the boot.
func (n *testNode) write(name, text string) string {
	n.tb.Helper()
	must(n.tb, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	must(n.tb, os.WriteFile(n.path(name), []byte(text), 0o600))
	n.age(n.path(name), later+time.Hour)
	return n.path(name)
}

// age sets how old a file is.
func (n *testNode) age(path string, age time.Duration) {
	n.tb.Helper()
	must(n.tb, os.Chtimes(path, n.now.Wall.Add(-age), n.now.Wall.Add(-age)))
}

// young makes files younger than the boot.
func (n *testNode) young(age time.Duration, paths ...string) {
	n.tb.Helper()
	for _, path := range paths {
		n.age(path, age)
	}
}

// idOf returns the ID of a sandbox with this name.
func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// sandbox has the runtime list a sandbox.
func (n *testNode) sandbox(name string, ready bool) {
	box := fakecri.Pod{UID: "6f1c2d3e-4a5b-4c6d-8e7f-00112233aa02", Namespace: "ns", Name: name, NotReady: !ready}.Sandbox()
	box.Id = idOf(name)
	n.boxes = append(n.boxes, box)
	n.cri.SetSandboxes(n.boxes...)
}

const deadUID = "11111111-4a5b-4c6d-8e7f-00112233aa02"

// cacheText is a file that libcni writes; netns may be "".
func cacheText(network, id, ifName, uid, netns string) string {
	return fmt.Sprintf(`{"kind":"cniCacheV1","containerId":%q,"config":"e30=","ifName":%q,"networkName":%q,"netns":%q,`+
		`"cniArgs":[["IgnoreUnknown","1"],["K8S_POD_INFRA_CONTAINER_ID",%q],["K8S_POD_UID",%q]],"result":{"interfaces":[{"name":"veth0"},{"name":"eth0","sandbox":%q}]}}`,
		id, ifName, network, netns, id, uid, netns)
}

// leak writes the files of a sandbox: its cache in two places, Multus', flannel's, and an address.
func (n *testNode) leak(name, addr string) []string {
	id := idOf(name)
	netns := "/var-run/netns/" + name
	return []string{
		n.write("cni/results/cbr0-"+id+"-eth0", cacheText("cbr0", id, "eth0", deadUID, netns)),
		n.write("cni/multus/results/tenant-net-"+id+"-net1.5", cacheText("tenant-net", id, "net1.5", deadUID, netns)),
		n.write("cni/multus/"+id, `[{"Conf":{"name":"cbr0"}}]`),
		n.write("cni/flannel/"+id, `{"name":"cbr0","type":"bridge"}`),
		n.address("cbr0", addr, id),
	}
}

func (n *testNode) address(network, addr, id string) string {
	return n.write("cni/networks/"+network+"/"+addr, id+"\r\neth0")
}

func (n *testNode) sweep(cleaned ...parsers.PodUID) *reaper.CNIStatus {
	n.tb.Helper()
	s, err := New(n.cfg)
	must(n.tb, err)
	s.changes, s.callTime = n.changes, time.Minute
	return n.sweepBy(s, judge.Standing{Node: n.snapshot.Node}, cleaned...)
}

func (n *testNode) sweepBy(s *Sweeper, standing judge.Standing, cleaned ...parsers.PodUID) *reaper.CNIStatus {
	n.tb.Helper()
	n.now.Wall = n.now.Wall.Add(time.Second) // no two sweeps are at the same time
	n.snapshot.At = n.now
	write := func(events ...judge.Event) bool {
		if n.refuse {
			return false
		}
		n.events = append(n.events, events...)
		return true
	}
	return s.Sweep(n.tb.Context(), reaper.CNISweep{
		Permit: standing.Gate(), Snapshot: n.snapshot, Cleaned: cleaned, Retention: n.retention, Write: write,
	})
}

// gone fails the test unless exactly these files are gone of all that were there.
func (n *testNode) wantGone(all, gone []string) {
	n.tb.Helper()
	want := map[string]bool{}
	for _, path := range gone {
		want[path] = true
	}
	for _, path := range all {
		_, err := os.Lstat(path)
		if is := errors.Is(err, os.ErrNotExist); is != want[path] {
			n.tb.Errorf("%s: gone %v, want %v", strings.TrimPrefix(path, n.dir), is, want[path])
		}
	}
}

// archived returns the content of the complete files in all archives, by path.
func (n *testNode) archived() map[string]string {
	n.tb.Helper()
	found := map[string]string{}
	paths, err := filepath.Glob(n.path("state/cni-*.tar.gz"))
	must(n.tb, err)
	for _, path := range paths {
		f, err := os.Open(path)
		must(n.tb, err)
		zip, err := gzip.NewReader(f)
		for err == nil {
			in := tar.NewReader(zip)
			var h *tar.Header
			for h, err = in.Next(); err == nil; h, err = in.Next() {
				var text []byte
				if text, err = io.ReadAll(in); err != nil {
					break
				}
				found["/"+h.Name] = string(text)
			}
		}
		must(n.tb, f.Close())
	}
	return found
}

func standingOf(n *testNode) judge.Standing { return judge.Standing{Node: n.snapshot.Node} }
