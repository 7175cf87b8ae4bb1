package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// runtime starts a runtime at a usual socket.
func (n *testNode) runtime(o fakecri.Options, pods ...fakecri.Pod) *fakecri.Server {
	n.t.Helper()
	socket := filepath.Join(n.t.TempDir(), "s")
	s, err := fakecri.Start(n.t.Context(), socket, o)
	must(n.t, err)
	n.t.Cleanup(s.Close)
	s.SetPods(pods...)
	n.cfg.Sockets = append(n.cfg.Sockets, socket)
	return s
}

// living is a pod with a directory here, so that the runtime is known to be the kubelet's.
func (n *testNode) living() fakecri.Pod {
	return fakecri.Pod{UID: string(n.pod()), Namespace: "ns", Name: "living", Running: 1}
}

func TestRunning(t *testing.T) {
	for name, c := range map[string]struct {
		pod    fakecri.Pod
		edit   func(c *runtimeapi.Container)
		truth  judge.Truth
		alive  bool
		detail string
	}{
		"ready sandbox":     {fakecri.Pod{}, nil, judge.Yes, true, "READY"},
		"stopped sandbox":   {fakecri.Pod{NotReady: true}, nil, judge.No, false, ""},
		"exited container":  {fakecri.Pod{NotReady: true, Exited: 2}, nil, judge.No, false, ""},
		"running container": {fakecri.Pod{NotReady: true, Exited: 1, Running: 1}, nil, judge.Yes, true, "RUNNING"},
		"container created": {fakecri.Pod{NotReady: true, Running: 1}, func(c *runtimeapi.Container) {
			c.State = runtimeapi.ContainerState_CONTAINER_CREATED
		}, judge.Yes, false, "CREATED"},
		"container not known": {fakecri.Pod{NotReady: true, Running: 1}, func(c *runtimeapi.Container) {
			c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
		}, judge.Yes, false, "UNKNOWN"},
		"container without labels": {fakecri.Pod{NotReady: true, Running: 1}, func(c *runtimeapi.Container) {
			c.Labels, c.Annotations = nil, nil // it is in the pod's sandbox
		}, judge.Yes, true, "RUNNING"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := n.pod()
			c.pod.UID, c.pod.Namespace, c.pod.Name, c.pod.Static = string(uid), "ns", "web", true
			s := n.runtime(fakecri.Options{}, n.living(), c.pod)
			if c.edit != nil {
				list := c.pod.Containers()
				c.edit(list[0])
				s.SetContainers(list...)
			}
			snapshot := n.scan()
			wantFact(t, snapshot.Node.RuntimeKnown, judge.Yes, false, "")
			p, _ := snapshot.Pod(uid)
			wantFact(t, p.Facts[judge.Running], c.truth, c.alive, c.detail)
			if p.Namespace != "ns" || p.PodName != "web" || !p.Static {
				t.Errorf("the pod is %s/%s, static %v", p.Namespace, p.PodName, p.Static)
			}
		})
	}
}

// TestClaimed: the annotations of a pod from the API server are its user's, so it cannot make another pod look alive.
func TestClaimed(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	living := n.living()
	s := n.runtime(fakecri.Options{}, living)
	box := living.Sandbox()
	box.Annotations["kubernetes.io/config.hash"] = string(uid)
	s.SetSandboxes(box)
	wantFact(t, n.fact(uid, judge.Running), judge.No, false, "")
	box.Annotations["kubernetes.io/config.source"] = "file"
	s.SetSandboxes(box)
	wantFact(t, n.fact(uid, judge.Running), judge.Yes, true, "READY")
}

// TestRuntimes: what a runtime that gives no complete answer is to all pods, also beside one that answers.
func TestRuntimes(t *testing.T) {
	for name, c := range map[string]struct {
		with   func(n *testNode, living fakecri.Pod)
		truth  judge.Truth
		detail string
	}{
		"none": {func(*testNode, fakecri.Pod) {}, judge.Unknown, "no container runtime"},
		"one":  {func(n *testNode, l fakecri.Pod) { n.runtime(fakecri.Options{}, l) }, judge.No, ""},
		"v1alpha2": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{Version: fakecri.V1Alpha2}, l)
		}, judge.No, ""},
		"beside one without CRI": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}, l)
			n.runtime(fakecri.Options{Version: fakecri.NoCRI})
		}, judge.No, ""},
		"beside a stale socket": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}, l)
			n.cfg.Sockets = append(n.cfg.Sockets, testkit.StaleSocket(t))
		}, judge.No, ""},
		"a list of 5 MiB": {func(n *testNode, l fakecri.Pod) {
			box := l.Sandbox()
			box.Annotations["long"] = strings.Repeat("x", 5<<20)
			n.runtime(fakecri.Options{}).SetSandboxes(box)
		}, judge.No, ""},
		"beside a path that cannot be read": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}, l)
			must(n.t, os.Symlink("loop", n.dir+"/loop"))
			n.cfg.Sockets = append(n.cfg.Sockets, n.dir+"/loop")
		}, judge.Unknown, "too many levels"},
		"beside a hung one": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}, l)
			n.cfg.Sockets = append(n.cfg.Sockets, testkit.MuteSocket(t, ""))
		}, judge.Unknown, "no answer"},
		"hung in one call": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}, l).SetFault(fakecri.ListContainers, fakecri.Fault{Hang: true})
		}, judge.Unknown, "no answer in time"},
		"cut": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{CutAfter: 200}, l)
		}, judge.Unknown, "cannot ask the runtime"},
		"of another cluster": {func(n *testNode, _ fakecri.Pod) {
			n.runtime(fakecri.Options{}, fakecri.Pod{UID: string(testkit.NewUID()), Namespace: "ns", Name: "x", Running: 1})
		}, judge.Unknown, "no runtime lists a pod that has a directory here"},
		"emptied": {func(n *testNode, _ fakecri.Pod) { n.runtime(fakecri.Options{}) }, judge.Unknown, "no runtime lists"},
		"set and refused": {func(n *testNode, l fakecri.Pod) {
			n.cfg.Endpoints = []string{n.runtime(fakecri.Options{}, l).Endpoint(), "unix://" + testkit.StaleSocket(t)}
		}, judge.Unknown, "connection refused"},
		"set and no CRI": {func(n *testNode, l fakecri.Pod) {
			n.cfg.Endpoints = []string{n.runtime(fakecri.Options{}, l).Endpoint(), n.runtime(fakecri.Options{Version: fakecri.NoCRI}).Endpoint()}
		}, judge.Unknown, "does not speak CRI"},
		"a sandbox without UID": {func(n *testNode, l fakecri.Pod) {
			box := l.Sandbox()
			lost := (&fakecri.Pod{Name: "lost", Namespace: "ns", ID: "lost"}).Sandbox()
			n.runtime(fakecri.Options{}).SetSandboxes(box, lost)
		}, judge.Unknown, "may be of any pod"},
		"a sandbox of crictl": {func(n *testNode, l fakecri.Pod) {
			n.runtime(fakecri.Options{}).SetSandboxes(l.Sandbox(), &runtimeapi.PodSandbox{Id: "crictl", Metadata: &runtimeapi.PodSandboxMetadata{Name: "x"}})
		}, judge.No, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := n.pod()
			living := n.living()
			c.with(n, living)
			s := n.scanner()
			s.limit = forever
			if c.detail == "no answer" || c.detail == "no answer in time" {
				s.limit = 8 * time.Second // of each call a quarter
			}
			snapshot := s.Scan(t.Context(), nil, nil)
			p, _ := snapshot.Pod(uid)
			wantFact(t, p.Facts[judge.Running], c.truth, false, c.detail)
			if want := judge.Yes; (snapshot.Node.RuntimeKnown.Truth == want) != (c.truth == judge.No) {
				t.Errorf("RuntimeKnown is %+v", snapshot.Node.RuntimeKnown)
			}
			if p.Facts[judge.Running].Busy {
				t.Error("a runtime that does not answer is called busy")
			}
			// What an incomplete answer lists is there.
			if p, _ = snapshot.Pod(parsers.PodUID(living.UID)); name == "beside a hung one" {
				wantFact(t, p.Facts[judge.Running], judge.Yes, true, "READY")
			}
		})
	}
}
