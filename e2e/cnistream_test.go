package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// These are the numbers of real ADD and DEL beside the sweeps. A file younger than streamHold is kept; files that
// live longer than two of them must be protected by the runtime's list or by their namespace.
const (
	streamed   = 5200 // attachments, each with one ADD and one DEL
	whole      = 200  // those with bridge and loopback in a network namespace of their own
	streamHold = 4 * time.Second
	resident   = 2*streamHold + 2*time.Second
)

// TestCNIStream checks that while the real plugins add and delete in parallel, dual-stack, in one store that is short
// of addresses, while sandboxes die without a DEL and sweeps follow each other, no living sandbox loses anything, and
// all files of dead ones are removed.
func TestCNIStream(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	if err := s.plant(0); err != nil {
		t.Fatal(err)
	}
	d := s.node.daemon(t, "--cni-dir", filepath.Dir(s.cache), "--cni-conf-dir", filepath.Join(s.node.dir, "net.d"), "--cni-older-than", streamHold.String())
	stop := make(chan struct{})
	sweeps := 0
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(streamHold / 4): // the plugin needs the store's lock, too
			}
			if out, stderr, code := d.try("sweep", "--no-wait"); code != 0 && code != 3 {
				s.fail(fmt.Errorf("sweep: %d %s%s", code, out, stderr))
				return
			}
			sweeps++
		}
	})
	planted := make(chan struct{})
	var planting sync.WaitGroup
	planting.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-planted:
				return
			case <-time.After(150 * time.Millisecond):
				s.fail(s.plant(i))
			}
		}
	})
	s.live()
	close(planted)
	planting.Wait()
	if err := errors.Join(s.errs...); err != nil {
		t.Fatal(err)
	}
	during := len(s.dead) - len(s.leftOfDead())
	eventually(t, 5*streamHold, func() string {
		left := s.leftOfDead()
		return missing(len(left) == 0, "left of the dead: %v", left)
	})
	close(stop)
	sweeping.Wait()
	t.Logf("%d ADD, %d DEL; %d sweeps removed %d files of the dead, %d of them during the stream; the plugin found no free address %d times",
		s.adds.Load(), s.dels.Load(), sweeps, len(s.dead), during, s.full.Load())
	if s.adds.Load()+s.dels.Load() < 10_000 || during < len(s.dead)/3 {
		t.Error("the run proves too little")
	}
	s.checkArchives(t, d)
	for _, pattern := range []string{s.ipam.dataDir + "/*/*[.:]*", s.cache + "/*"} {
		left, err := filepath.Glob(pattern)
		left = slices.DeleteFunc(left, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "last_reserved_ip.") })
		if err != nil || len(left) > 0 {
			t.Errorf("remaining: %v, %v", left, err)
		}
	}
}

// stream is a node of CNI only: the runtime is a list, and the kubelet only a process name.
type stream struct {
	node       *node
	cache      string
	ipam       ipamStore
	runtime    *listed
	adds, dels atomic.Int64
	full       atomic.Int64
	mu         sync.Mutex
	errs       []error
	dead       []string // files
	deadIDs    map[string]bool
}

func newStream(t *testing.T) *stream {
	t.Helper()
	dir := mkdir(t, filepath.Join(machine.dir, "stream"))
	n := &node{host: machine, dir: dir, root: mkdir(t, filepath.Join(dir, "root")), endpoint: filepath.Join(dir, "cri.sock")}
	s := &stream{node: n, cache: mkdir(t, filepath.Join(dir, "cni", "results")), deadIDs: map[string]bool{}}
	s.ipam = ipamStore{network: tag + "s", dataDir: filepath.Join(dir, "cni", "networks"), ranges: `[[{"subnet": "10.213.79.0/24"}], [{"subnet": "fd00:213:79::/120"}]]`}
	write(t, filepath.Join(mkdir(t, filepath.Join(dir, "net.d")), "10-stream.conf"), s.ipam.conf())
	mkdir(t, filepath.Join(n.root, "pods"))
	kubelet := filepath.Join(dir, "kubelet")
	if err := os.Symlink(filepath.Join(machine.dir, "pause"), kubelet); err != nil {
		t.Fatal(err)
	}
	n.kubelet = launch(t, "kubelet", n.kubeletLog(), kubelet, "--root-dir="+n.root)
	t.Cleanup(func() { n.kubelet.end(t) })
	s.runtime = newListed(t, n.endpoint)
	t.Cleanup(func() {
		for _, link := range machine.links() {
			if link == s.ipam.network {
				must(t, "ip", "link", "delete", link)
			}
		}
	})
	return s
}

func (s *stream) fail(err error) {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.errs) < 20 {
			s.errs = append(s.errs, err)
		}
	}
}

// live runs the living sandboxes in four threads: most are short, and half of those are on the runtime's list; one in
// twenty lives so long that its age no longer protects it.
func (s *stream) live() {
	var workers, residents sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		workers.Go(func() {
			for {
				i := next.Add(1)
				if i > streamed || s.failed() {
					return
				}
				a := attachment{s: s, id: newID(), netns: "/run/netns/cni-none"}
				if i%(streamed/whole) == 0 {
					a.netns = fmt.Sprintf("/run/netns/cni-%ss-%d", tag, i)
				}
				if err := a.add(); err != nil {
					s.fail(err)
					return
				}
				// A namespace protects a sandbox that is not listed.
				if i%20 == 0 || i%2 == 0 && !a.real() {
					s.runtime.list(a.id)
				}
				if i%20 == 0 || a.real() && i%3 == 0 {
					residents.Go(func() {
						time.Sleep(resident)
						s.fail(a.end())
					})
					continue
				}
				s.fail(a.end())
			}
		})
	}
	workers.Wait()
	residents.Wait()
}

func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}

// plant adds a sandbox that dies without a DEL. Some were listed; some had a namespace.
func (s *stream) plant(i int) error {
	a := attachment{s: s, id: newID(), netns: "/run/netns/cni-none", unnamed: i%2 == 0}
	if i%10 == 0 {
		a.netns = fmt.Sprintf("/run/netns/cni-%sd-%d", tag, i)
	}
	if err := a.add(); err != nil {
		return err
	}
	if i%3 == 0 {
		s.runtime.list(a.id)
		time.Sleep(20 * time.Millisecond)
		s.runtime.drop(a.id)
	}
	if a.real() {
		if out, err := exec.Command("ip", "netns", "delete", filepath.Base(a.netns)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadIDs[a.id] = true
	s.dead = append(s.dead, slices.Sorted(maps.Keys(a.files))...)
	return nil
}

// leftOfDead returns the files of dead sandboxes that still exist. An address may be another sandbox's by now.
func (s *stream) leftOfDead() []string {
	return slices.DeleteFunc(slices.Clone(s.dead), func(path string) bool {
		b, err := os.ReadFile(path)
		if err != nil {
			return true
		}
		id, _, _ := strings.Cut(string(b), "\r\n")
		return strings.HasPrefix(path, s.ipam.dataDir) && !s.deadIDs[id]
	})
}

// checkArchives checks that all removed files are archived once, and no file of a living sandbox.
func (s *stream) checkArchives(t *testing.T, d *daemon) {
	t.Helper()
	taken := map[string]int{}
	for _, archive := range below(t, d.state) {
		if !strings.HasSuffix(archive, ".tar.gz") {
			continue
		}
		for path, text := range archived(t, archive) {
			id, _, address := strings.Cut(text, "\r\n")
			if !address {
				id = containerID.FindString(path)
			}
			if !s.deadIDs[id] {
				t.Errorf("%s contains %s of the living sandbox %s", archive, path, id)
			}
			taken[id]++
		}
	}
	for id := range s.deadIDs {
		if taken[id] < 3 || taken[id] > 4 { // two addresses, one or two cache files
			t.Errorf("%d files of %s are archived", taken[id], id)
		}
	}
}

var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// listed is a runtime with a list of sandboxes.
type listed struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	mu  sync.Mutex
	ids map[string]bool
}

func newListed(t *testing.T, socket string) *listed {
	t.Helper()
	l := &listed{ids: map[string]bool{newID(): true}} // an empty list proves nothing
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return l
}

func (l *listed) list(id string) { l.mu.Lock(); defer l.mu.Unlock(); l.ids[id] = true }

func (l *listed) drop(id string) { l.mu.Lock(); defer l.mu.Unlock(); delete(l.ids, id) }

// Version responds like containerd.
func (l *listed) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "stream", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

// ListPodSandbox lists all sandboxes.
func (l *listed) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := &runtimeapi.ListPodSandboxResponse{}
	for id := range l.ids {
		answer.Items = append(answer.Items, &runtimeapi.PodSandbox{
			Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "e2e", Uid: uidOf(id)},
			Labels: map[string]string{"io.kubernetes.pod.uid": uidOf(id), "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "e2e"},
		})
	}
	return answer, nil
}

// ListContainers lists no container.
func (l *listed) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}
