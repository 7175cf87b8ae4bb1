package cni

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestTable: each column has a yes, a no and an unknown. The five files of one sandbox are judged together.
func TestTable(t *testing.T) {
	const thisBoot = later - time.Hour // older than cni_older_than, and of this boot
	for name, c := range map[string]struct {
		change  func(n *testNode, files []string)
		cleaned parsers.PodUID
		want    state
	}{
		"older than this boot": {func(*testNode, []string) {}, "", isStale},

		// Its sandbox is gone.
		"listed and ready":     {func(n *testNode, _ []string) { n.sandbox("gone", true) }, "", isAlive},
		"listed and not ready": {func(n *testNode, _ []string) { n.sandbox("gone", false) }, "", isAlive},
		"listed by a container only": {func(n *testNode, _ []string) {
			list := fakecri.Pod{UID: deadUID, Running: 1}.Containers()
			list[0].PodSandboxId = idOf("gone")
			n.cri.SetContainers(list...)
		}, "", isAlive},
		"no kubelet":                {func(n *testNode, _ []string) { n.snapshot.Node.KubeletKnown = judge.Fact{} }, "", isUnknown},
		"two kubelets":              {func(n *testNode, _ []string) { n.snapshot.Node.KubeletKnown = judge.Fact{Truth: judge.No} }, "", isUnknown},
		"no runtime":                {func(n *testNode, _ []string) { n.cri.Close() }, "", isUnknown},
		"runtime fails":             {func(n *testNode, _ []string) { n.fault(fakecri.ListPodSandbox) }, "", isUnknown},
		"containers are not listed": {func(n *testNode, _ []string) { n.fault(fakecri.ListContainers) }, "", isUnknown},
		"a second runtime fails": {func(n *testNode, _ []string) {
			second := n.second(fakecri.Options{})
			second.SetFault(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
		}, "", isUnknown},
		"a second runtime lists it": {func(n *testNode, _ []string) {
			box := fakecri.Pod{UID: deadUID, ID: idOf("gone"), NotReady: true}
			n.second(fakecri.Options{}).SetSandboxes(box.Sandbox())
		}, "", isAlive},
		"a second server without CRI":  {func(n *testNode, _ []string) { n.second(fakecri.Options{Version: fakecri.NoCRI}) }, "", isStale},
		"an empty answer, before boot": {func(n *testNode, _ []string) { n.cri.SetSandboxes() }, "", isStale},
		"an empty answer, this boot": {func(n *testNode, files []string) {
			n.cri.SetSandboxes()
			n.young(thisBoot, files...)
		}, deadUID, isUnknown},

		// It is the kubelet's.
		"no argument, its network is loaded": {func(n *testNode, files []string) { n.withoutArguments(files) }, "", isStale},
		"no argument, another file names its network": {func(n *testNode, files []string) {
			n.withoutArguments(files)
			n.write("conf/10-cbr0.conflist", `{"name":"other","type":"bridge"}`)
			n.write("cni/results/cbr0-"+idOf("living")+"-eth0", cacheText("cbr0", idOf("living"), "eth0", deadUID, ""))
		}, "", isStale},
		"no argument, no network": {func(n *testNode, files []string) {
			n.withoutArguments(files)
			n.write("conf/00-podman.conflist", `{"name":"podman","plugins":[{"type":"bridge"}]}`)
		}, "", isOthers},
		"no argument, the first configuration cannot be read": {func(n *testNode, files []string) {
			n.withoutArguments(files)
			n.write("conf/10-cbr0.conflist", `{"name":"cbr0"`)
		}, "", isOthers},
		"Podman has it": {func(n *testNode, _ []string) {
			n.write("root/var/lib/containers/storage/overlay-containers/"+idOf("gone")+"/x", "")
		}, "", isOthers},
		"nerdctl has it": {func(n *testNode, _ []string) {
			n.write("root/var/lib/nerdctl/1935db59/containers/default/"+idOf("gone")+"/x", "")
		}, "", isOthers},
		"containerd runs it": {func(n *testNode, _ []string) {
			n.write("root/run/containerd/io.containerd.runtime.v2.task/k8s.io/"+idOf("gone")+"/x", "")
		}, "", isOthers},
		"a store cannot be read": {func(n *testNode, _ []string) {
			must(n.tb, os.MkdirAll(n.path("root/var/lib/containers"), 0o755))
			must(n.tb, os.Symlink("storage", n.path("root/var/lib/containers/storage")))
		}, "", isUnknown},

		// It is old enough.
		"namespace gone":      {func(n *testNode, files []string) { n.young(thisBoot, files...) }, "", isStale},
		"namespace is there":  {func(n *testNode, files []string) { n.young(thisBoot, files...); n.write("root/run/netns/gone", "") }, "", isUnknown},
		"namespace not known": {func(n *testNode, files []string) { n.netns(files, "/elsewhere/../x"); n.young(thisBoot, files...) }, "", isWaiting},
		"namespace gone, libcni 0.7": {func(n *testNode, files []string) {
			n.oldCaches(files)
			n.young(thisBoot, files...)
		}, "", isStale},
		"namespace is there, libcni 0.7": {func(n *testNode, files []string) {
			n.oldCaches(files)
			n.young(thisBoot, files...)
			n.write("root/run/netns/gone", "")
		}, "", isUnknown},
		"no namespace": {func(n *testNode, files []string) { n.netns(files, ""); n.young(thisBoot, files...) }, "", isWaiting},
		"process gone": {func(n *testNode, files []string) { n.netns(files, "/proc/300/ns/net"); n.young(thisBoot, files...) }, "", isStale},
		"process is there": {func(n *testNode, files []string) {
			n.netns(files, "/proc/300/ns/net")
			n.write("root/proc/300/x", "")
			n.young(thisBoot, files...)
		}, "", isWaiting},
		"process, before boot": {func(n *testNode, files []string) { n.netns(files, "/proc/300/ns/net"); n.write("root/proc/300/x", "") }, "", isStale},
		"young":                {func(n *testNode, files []string) { n.young(23*time.Hour, files...) }, "", isWaiting},
		"young, we cleaned it": {func(n *testNode, files []string) { n.netns(files, ""); n.young(time.Hour, files...) }, deadUID, isStale},
		"we cleaned another":   {func(n *testNode, files []string) { n.young(time.Hour, files...) }, "22222222-4a5b-4c6d-8e7f-00112233aa02", isWaiting},
		"of two pods, we cleaned one": {func(n *testNode, files []string) {
			n.change(files[:1], deadUID, "22222222-4a5b-4c6d-8e7f-00112233aa02")
			n.netns(files, "")
			n.young(time.Hour, files...)
		}, deadUID, isWaiting},
		"two namespaces, one not known": {func(n *testNode, files []string) {
			n.netns(files[:1], "/elsewhere/../x")
			n.young(thisBoot, files...)
		}, "", isWaiting},
		"clock set back, an empty answer": {func(n *testNode, files []string) {
			n.cri.SetSandboxes()
			n.netns(files, "")
			n.now.Wall, n.now.Boot = n.now.Wall.Add(-later-time.Hour), 2*time.Hour
			n.young(30*time.Minute, files...)
		}, "", isUnknown},
		"cleaned, and it comes back": {func(n *testNode, files []string) { n.netns(files, ""); n.young(time.Minute, files...) }, deadUID, isWaiting},
		"no mark of the boot":        {func(n *testNode, files []string) { n.netns(files, ""); must(n.tb, os.RemoveAll(n.path("root/run"))) }, "", isWaiting},
		"from the future":            {func(n *testNode, files []string) { n.young(-time.Hour, files...) }, "", isWaiting},
		// The clock ran two hours ahead at the boot, an hour ago, and the sandbox is being made.
		"clock set back, an ADD": {func(n *testNode, files []string) {
			n.netns(files, "")
			n.now.Wall, n.now.Boot = n.now.Wall.Add(-later+time.Minute), time.Hour
			n.young(2*time.Minute, files...)
		}, "", isWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			files := n.leak("gone", "10.244.0.7")
			c.change(n, files)
			s := n.sweep(c.cleaned)
			left := files
			if c.want == isStale {
				left = nil
			}
			n.wantGone(files, files[:len(files)-len(left)])
			for st, got := range map[state]int{isUnknown: s.Unknown, isOthers: s.Others, isWaiting: s.Waiting, isStale: s.Removed} {
				want := 0
				if st == c.want {
					want = len(files)
				}
				if st == isUnknown && !s.Complete {
					want = s.Files
				}
				if got != want {
					t.Errorf("state %d: %d files, want %d; %+v", st, got, want, s)
				}
			}
			if s.Operator {
				t.Error("an operator is asked")
			}
		})
	}
}

func (n *testNode) fault(c fakecri.Call) {
	n.cri.SetFault(c, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
}

// second starts another runtime at a usual socket.
func (n *testNode) second(o fakecri.Options) *fakecri.Server {
	n.tb.Helper()
	s, err := fakecri.Start(n.tb.Context(), n.path("s2"), o)
	must(n.tb, err)
	n.tb.Cleanup(s.Close)
	n.cfg.Sockets = append(n.cfg.Sockets, n.path("s2"))
	return s
}

// change replaces text in the files.
func (n *testNode) change(files []string, old, text string) {
	n.tb.Helper()
	for _, path := range files {
		was, err := os.ReadFile(path)
		must(n.tb, err)
		must(n.tb, os.WriteFile(path, []byte(strings.ReplaceAll(string(was), old, text)), 0o600))
		n.age(path, later+time.Hour)
	}
}

// withoutArguments makes files like those of Podman: without the kubelet's argument, and all of one network.
func (n *testNode) withoutArguments(files []string) {
	n.change(files, "K8S_POD_INFRA_CONTAINER_ID", "X")
	id := idOf("gone")
	must(n.tb, os.Remove(files[1]))
	n.write("cni/multus/results/cbr0-"+id+"-net1", cacheText("cbr0", id, "net1", deadUID, ""))
	n.change([]string{n.path("cni/multus/results/cbr0-" + id + "-net1")}, "K8S_POD_INFRA_CONTAINER_ID", "X")
	files[1] = n.path("cni/multus/results/cbr0-" + id + "-net1")
}

// oldCaches makes the caches those of libcni 0.7: a result alone.
func (n *testNode) oldCaches(files []string) {
	n.withoutArguments(files)
	for _, path := range files[:2] {
		must(n.tb, os.WriteFile(path, []byte(`{"cniVersion":"0.3.1","interfaces":[{"name":"veth0"},{"name":"eth0","sandbox":"/var-run/netns/gone"}]}`), 0o600))
		n.age(path, later+time.Hour)
	}
}

// netns gives the files another network namespace.
func (n *testNode) netns(files []string, path string) { n.change(files, "/var-run/netns/gone", path) }

// TestClockForward: /run has no birth, and the clock was set two days forward while a sandbox is being made, which no runtime
// lists yet. /run's oldest entry has the time of the boot.
func TestClockForward(t *testing.T) {
	n := newNode(t)
	testkit.Mount(t, "ramfs", n.path("root/run"), "ramfs", 0, "")
	must(t, os.Mkdir(n.path("root/run/netns"), 0o755))
	n.now.Boot = 2 * time.Minute
	being, before := n.address("cbr0", "10.244.0.7", idOf("being made")), n.address("cbr0", "10.244.0.8", idOf("gone"))
	now := time.Now().Add(time.Second)
	must(t, os.Chtimes(being, now, now))
	s := n.sweep()
	n.wantGone([]string{being, before}, []string{before})
	if s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
}

// TestNoOpenat2: before Linux 5.6 the stores and namespaces are read, too, also behind absolute and relative links.
func TestNoOpenat2(t *testing.T) {
	n := newNode(t)
	gone := n.leak("gone", "10.244.0.7")
	others := append(n.leak("runs", "10.244.0.8"), n.leak("Podman's", "10.244.0.9")...)
	unknown := n.leak("there", "10.244.0.10")
	all := append(append(gone, others...), unknown...)
	n.young(later-time.Hour, all...)
	n.write("root/run/containerd/io.containerd.runtime.v2.task/k8s.io/"+idOf("runs")+"/x", "")
	n.write("root/data/storage/overlay-containers/"+idOf("Podman's")+"/x", "")
	n.write("root/run/netns/there", "")
	must(t, os.MkdirAll(n.path("root/var/lib"), 0o755))
	must(t, os.Symlink("../../data", n.path("root/var/lib/containers")))
	must(t, os.Symlink("nerdctl", n.path("root/var/lib/nerdctl")))
	for _, loops := range []bool{true, false} {
		s, err := New(n.cfg)
		must(t, err)
		s.open, err = fdpath.New(true)
		must(t, err)
		got := n.sweepBy(s, standingOf(n))
		if loops {
			n.wantGone(all, nil)
			if got.Unknown != len(all) || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "/var/lib/nerdctl") {
				t.Errorf("%+v", got)
			}
			must(t, os.Remove(n.path("root/var/lib/nerdctl")))
			continue
		}
		n.wantGone(all, gone)
		if got.Others != len(others) || got.Unknown != len(unknown) || len(got.Problems) > 0 {
			t.Errorf("%+v", got)
		}
	}
}

// TestCleanedAgain: the files of a pod that was cleaned go at once, also if the sweep after it has failed.
func TestCleanedAgain(t *testing.T) {
	n := newNode(t)
	files := n.leak("gone", "10.244.0.7")
	n.netns(files, "")
	n.young(time.Hour, files...)
	s, err := New(n.cfg)
	must(t, err)
	n.fault(fakecri.ListPodSandbox)
	n.sweepBy(s, standingOf(n), deadUID)
	n.wantGone(files, nil)
	n.cri.SetFault(fakecri.ListPodSandbox, fakecri.Fault{})
	n.sweepBy(s, standingOf(n))
	n.wantGone(files, files)
}

// TestRootOf: the network namespaces are looked up where the kubelet runs: in its container, or where PID 1 is closed to root.
func TestRootOf(t *testing.T) {
	n := newNode(t)
	n.cfg.Root = ""
	s, err := New(n.cfg)
	must(t, err)
	n.snapshot.Node.Kubelet.PID = 4711
	if root := s.rootOf(n.snapshot.Node); root != "/proc/4711/root" {
		t.Errorf("with a kubelet: %s", root)
	}
	n.snapshot.Node.KubeletKnown.Truth = judge.No
	if root := s.rootOf(n.snapshot.Node); root != "/proc/1/root" {
		t.Errorf("without a kubelet: %s", root)
	}
}
