package cni

import (
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

// TestPeers has the cases at which the scripts that do this job fail: StarlingX's k8s-cni-cache-cleanup takes a runtime that
// fails, or that has lost its list, for a node without pods; it removes the files of a sandbox without a running container, and
// knows neither multus/results nor cri-dockerd's cache, nor an interface with a dash or dot. api-cni-cleanup removes lock and last_reserved_ip.
// Antrea's gc-host-local.sh frees all addresses when the list is empty.
func TestPeers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *testNode)
		young  bool
		gone   bool
	}{
		"it answers": {func(*testNode) {}, true, true},
		"it fails": {func(n *testNode) {
			n.cri.SetFault(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.Unavailable, "x")})
		}, false, false},
		"it hangs":                       {func(n *testNode) { n.cri.SetFault(fakecri.ListPodSandbox, fakecri.Fault{Hang: true}) }, false, false},
		"it dies":                        {func(n *testNode) { n.cri.SetFault(fakecri.ListPodSandbox, fakecri.Fault{Die: true}) }, false, false},
		"it is empty, files of now":      {func(n *testNode) { n.cri.SetSandboxes() }, true, false},
		"it is empty, files before boot": {func(n *testNode) { n.cri.SetSandboxes() }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			var dead, living []string
			for i := range 200 {
				box := fmt.Sprintf("dead-%d", i)
				dead = append(dead, n.leak(box, fmt.Sprintf("10.244.0.%d", i+2))...)
				dead = append(dead, n.write("cni/cache/results/cbr0-"+idOf(box)+"-net-1", cacheText("cbr0", idOf(box), "net-1", deadUID, "")))
			}
			for i := range 50 {
				box := fmt.Sprintf("living-%d", i)
				n.sandbox(box, i%2 == 0) // also one that has ended, whose teardown needs the files
				files := n.leak(box, fmt.Sprintf("10.244.1.%d", i+2))
				living = append(living, files...)
				if name != "it is empty, files before boot" {
					continue
				}
				living = living[:0] // no namespace outlives a boot, and the runtime lists none of them
			}
			if c.young {
				n.young(25*time.Hour, append(dead, living...)...)
			}
			living = append(living, n.write("cni/networks/cbr0/lock", ""), n.write("cni/networks/cbr0/last_reserved_ip.0", "10.244.0.9"))
			c.change(n)
			s, err := New(n.cfg)
			must(t, err)
			if name == "it hangs" {
				s.callTime = 50 * time.Millisecond
			}
			st := n.sweepBy(s, standingOf(n))
			gone := dead
			if !c.gone {
				gone = nil
			}
			n.wantGone(append(dead, living...), gone)
			if c.gone && (st.Archive == "" || len(n.archived()) < len(dead)) {
				t.Errorf("%d files in %s", len(n.archived()), st.Archive)
			}
		})
	}
}

// TestFullRange: after a hard reboot 253 of 254 addresses are stale. They go at once, and the status has the range set that was
// full, whose addresses are not those of both families.
func TestFullRange(t *testing.T) {
	n := newNode(t)
	n.write("conf/10-cbr0.conflist", `{"name":"cbr0","plugins":[{"type":"bridge","ipam":{"type":"host-local",
"ranges":[[{"subnet":"fd00:10::/64"}],[{"subnet":"10.244.0.0/24"}]]}}]}`)
	var stale []string
	for i := 2; i <= 254; i++ {
		id := idOf(fmt.Sprint(i))
		stale = append(stale, n.address("cbr0", fmt.Sprintf("10.244.0.%d", i), id), n.address("cbr0", fmt.Sprintf("fd00:10::%x", i), id))
	}
	s, err := New(n.cfg)
	must(t, err)
	observe := standingOf(n)
	observe.Observe = true
	got := n.sweepBy(s, observe)
	if net := got.Networks[0]; net.Name != "cbr0" || !net.Full || net.Used != 253 || net.Stale != 253 || net.Size != 253 {
		t.Errorf("%+v", got.Networks)
	}
	got = n.sweepBy(s, standingOf(n))
	n.wantGone(stale, stale)
	if net := got.Networks[0]; net.Full || net.Used != 0 || net.Stale != 0 || got.Operator {
		t.Errorf("%+v", got.Networks)
	}
}

// TestAddressesElsewhere: a network's addresses may lie elsewhere. Each is counted once, and those that lie where the plugin does
// not look any more are of no range set. What could not be read has no numbers: 0 would mean that no address is used.
func TestAddressesElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		dir    string
		change func(n *testNode)
		used   int // -1: the network is not in the status
	}{
		"one directory by two paths": {"alias/networks", func(n *testNode) { must(n.tb, os.Symlink(n.path("cni"), n.path("alias"))) }, 3},
		"moved": {"data", func(n *testNode) {
			for _, addr := range []string{"10.244.0.4", "10.244.0.5"} {
				n.write("data/cbr0/"+addr, idOf("living")+"\r\neth0")
			}
		}, 2},
		"none":                 {"data", func(*testNode) {}, 0},
		"it is a link":         {"data", func(n *testNode) { n.write("data/x/y", ""); must(n.tb, os.Symlink("x", n.path("data/cbr0"))) }, -1},
		"networks are a link":  {"", func(n *testNode) { n.link("cni/networks") }, -1},
		"only the node has it": {"data", func(n *testNode) { must(n.tb, os.MkdirAll(n.path("root/"+n.path("data")), 0o755)) }, -1},
		"only the node has CNI's": {"", func(n *testNode) {
			must(n.tb, os.MkdirAll(n.path("root/"+n.path("cni")), 0o755))
			n.link("cni")
			must(n.tb, os.Remove(n.path("cni")))
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			dataDir := ""
			if c.dir != "" {
				dataDir = n.path(c.dir)
			}
			n.write("conf/10-cbr0.conflist", `{"name":"cbr0","plugins":[{"type":"bridge","ipam":{"type":"host-local","dataDir":"`+dataDir+
				`","ranges":[[{"subnet":"10.244.0.0/29"}]]}}]}`)
			for _, addr := range []string{"10.244.0.2", "10.244.0.3", "10.244.0.6"} {
				n.address("cbr0", addr, idOf("living"))
			}
			c.change(n)
			s := n.sweep()
			used, full := -1, false
			for _, net := range s.Networks {
				used, full = net.Used, net.Full
			}
			if used != c.used || full {
				t.Errorf("%+v", s.Networks)
			}
			kept, problem := name == "only the node has it", name != "only the node has it" && c.used < 0
			if kept != (len(s.Kept) > 0) || problem != (len(s.Problems) > 0) {
				t.Errorf("%q, %+v", s.Problems, s.Kept)
			}
		})
	}
}

// link moves a directory, and puts a link in its place.
func (n *testNode) link(dir string) {
	n.tb.Helper()
	must(n.tb, os.Rename(n.path(dir), n.path("moved")))
	must(n.tb, os.Symlink(n.path("moved"), n.path(dir)))
}

// TestBroken has the files that a crash leaves: empty, NULs, half of JSON.
func TestBroken(t *testing.T) {
	for text, what := range map[string]string{"": "empty", "\x00\x00\x00\x00": "NULs", `{"kind":"cniCacheV1","containerId":"`: "half of JSON"} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t)
			n.sandbox("ended", false)
			n.sandbox("ready", true)
			caches := func(box string) []string {
				id := idOf(box)
				return []string{
					n.write("cni/results/cbr0-"+id+"-eth0", text), n.write("cni/multus/results/cbr0-"+id+"-net1", text),
					n.write("cni/multus/"+id, text), n.write("cni/flannel/"+id, text),
				}
			}
			ended, ready, gone := caches("ended"), caches("ready"), caches("gone")
			being := n.write("cni/results/cbr0-"+idOf("ended")+"-eth1", text)
			n.young(time.Minute, being) // it is being written
			sum := append(append(append(ended, ready...), gone...), being)
			s := n.sweep()
			// A scratch file of a sandbox that is gone names no network: nothing shows that it is the kubelet's.
			n.wantGone(sum, append(ended, gone[:2]...))
			if s.Operator || s.Others != 2 || s.Unknown != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestEmptyAddress: an address file without an ID goes after a boot, if no living sandbox has the address.
func TestEmptyAddress(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *testNode, path string)
		want   state
	}{
		"before boot":                           {func(*testNode, string) {}, isStale},
		"this boot":                             {func(n *testNode, path string) { n.young(25*time.Hour, path) }, isWaiting},
		"a living sandbox has it":               {func(n *testNode, _ string) { n.cri.SetIPs(idOf("living"), "10.244.0.7") }, isAlive},
		"a living sandbox has it as its second": {func(n *testNode, _ string) { n.cri.SetIPs(idOf("living"), "fd00::7", "10.244.0.7") }, isAlive},
		"the runtime has another":               {func(n *testNode, _ string) { n.cri.SetIPs(idOf("living"), "10.244.0.77") }, isStale},
		"the runtime fails":                     {func(n *testNode, _ string) { n.fault(fakecri.PodSandboxStatus) }, isUnknown},
		"another network": {func(n *testNode, path string) {
			must(n.tb, os.MkdirAll(n.path("cni/networks/podman"), 0o755))
			must(n.tb, os.Rename(path, n.path("cni/networks/podman/10.244.0.7")))
			n.write("conf/00-x.conf", "{") // and that which the runtime loads is not known
		}, isOthers},
		"half an ID": {func(n *testNode, _ string) { n.write("cni/networks/cbr0/10.244.0.7", idOf("gone")[:40]) }, isUnknown},
	} {
		for _, text := range []string{"", "\x00\x00", "\r\n"} {
			t.Run(name, func(t *testing.T) {
				n := newNode(t)
				path := n.write("cni/networks/cbr0/10.244.0.7", text)
				c.change(n, path)
				s := n.sweep()
				got := map[state]int{isUnknown: s.Unknown, isOthers: s.Others, isWaiting: s.Waiting, isStale: s.Removed}
				for st, count := range got {
					if (st == c.want) != (count == 1) {
						t.Errorf("state %d: %d; %+v", st, count, s)
					}
				}
			})
		}
	}
}
