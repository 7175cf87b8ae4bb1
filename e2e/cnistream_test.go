package e2e

import (
	"cmp"
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

// These are the numbers of real ADD and DEL beside the sweeps. The files of living and of dead sandboxes look an hour old, and
// half an hour is old enough: only a runtime's list or a network namespace shows who lives.
const (
	streamed = 5200 // attachments, each with one ADD and one DEL
	whole    = 200  // those with bridge and loopback in a network namespace of their own
	resident = 10 * time.Second
	boxes    = 50 // sandboxes that containerd runs all the time
)

// TestCNIStream checks that while containerd starts and stops sandboxes and the real plugins add and delete in parallel,
// dual-stack, in one store that is short of addresses, while sandboxes die without a DEL and sweeps follow each other, no
// living sandbox loses anything, no address has two owners, and all files of dead ones are removed. STREAM_TIME=10m is its
// long form.
func TestCNIStream(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	living := s.runBoxes(t)
	if err := s.plant(0); err != nil {
		t.Fatal(err)
	}
	d := s.node.daemon(t, "--runtime-endpoints", "unix://"+s.runtime.socket, "--cni-dir", s.dir, "--cni-older-than", "30m")
	stop, planted := make(chan struct{}), make(chan struct{})
	var sweeping, planting sync.WaitGroup
	sweeping.Go(func() { s.sweep(d, stop) })
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
	for range 2 {
		planting.Go(func() { s.restartBoxes(planted) })
	}
	s.live(t)
	close(planted)
	planting.Wait()
	during := len(s.dead) - len(s.leftOfDead())
	eventually(t, 30*time.Second, func() string {
		left := s.leftOfDead()
		return missing(len(left) == 0 || s.failed(), "left of the dead: %v", left)
	})
	close(stop)
	sweeping.Wait()
	for _, b := range living {
		s.fail(s.endBox(b))
	}
	if err := errors.Join(s.errs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ADD, %d DEL by the plugins, and by containerd %d sandboxes beside %d; %d sweeps removed %d files of %d dead sandboxes, %d "+
		"of them during the stream; no free address %d times", s.adds.Load(), s.dels.Load(), s.restarts.Load(), boxes, s.sweeps.Load(),
		len(s.dead), len(s.deadFiles), during, s.full.Load())
	if s.adds.Load()+s.dels.Load() < 10_000 || during < len(s.dead)/3 || s.restarts.Load() == 0 {
		t.Error("the run proves too little")
	}
	s.checkArchives(t, d)
	for _, pattern := range []string{"networks/*/*[.:]*", "results/*", "multus/*", "flannel/*"} {
		left, err := filepath.Glob(filepath.Join(s.dir, pattern))
		left = slices.DeleteFunc(left, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "last_reserved_ip.") })
		if err != nil || len(left) > 0 {
			t.Errorf("remaining: %v, %v", left, err)
		}
	}
}

// stream is a node whose kubelet is only a process name. One of its runtimes is containerd, the other a list.
type stream struct {
	cniStore
	node             *node
	cri              runtimeapi.RuntimeServiceClient
	runtime          *listed
	adds, dels, full atomic.Int64
	sweeps, restarts atomic.Int64
	mu               sync.Mutex
	errs             []error
	owners           map[string]string // of addresses
	dead             []string          // files
	deadFiles        map[string]int    // their number by ID
}

func newStream(t *testing.T) *stream {
	t.Helper()
	dir := mkdir(t, filepath.Join(machine.dir, "stream"))
	n := &node{host: machine, dir: dir, tag: tag + "s", root: mkdir(t, filepath.Join(dir, "root")), endpoint: filepath.Join(dir, "cri.sock")}
	n.ranges = strings.Replace(allRanges, `.0/24"`, `.0/24", "rangeEnd": "10.213.77.71"`, 1) // 70 addresses: fewer than there are takers
	n.cniDir = mkdir(t, filepath.Join(dir, "var-lib-cni"))
	n.pods = mkdir(t, filepath.Join(n.root, "pods"))
	t.Cleanup(func() { n.stop(t) })
	n.network(t)
	n.cgroup(t)
	n.runtime = n.startRuntime(t, engine)
	n.use(t, engine)
	n.importImage(t)
	kubelet := filepath.Join(dir, "kubelet")
	if err := os.Symlink(filepath.Join(machine.dir, "pause"), kubelet); err != nil {
		t.Fatal(err)
	}
	n.kubelet = launch(t, "kubelet", n.kubeletLog(), kubelet, "--root-dir="+n.root)
	return &stream{
		cniStore: newStore(n.cniDir, n.tag, n.ranges), node: n, cri: n.cri(t), runtime: newListed(t, filepath.Join(dir, "listed.sock")),
		owners: map[string]string{}, deadFiles: map[string]int{},
	}
}

// sweep sweeps again and again.
func (s *stream) sweep(d *daemon, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second): // the plugin needs the store's lock, too
		}
		if out, stderr, code := d.try("sweep", "--no-wait"); code != 0 && code != 3 {
			s.fail(fmt.Errorf("sweep: %d %s%s", code, out, stderr))
			return
		}
		s.sweeps.Add(1)
	}
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

func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}

// add attaches a sandbox as soon as there is a free address, and makes it look old.
func (s *stream) add(a *attachment) error {
	for {
		addresses, err := a.add()
		if errors.Is(err, errFull) && !s.failed() {
			s.full.Add(1)
			time.Sleep(20 * time.Millisecond) // until a sweep has freed addresses
			continue
		}
		if err == nil {
			s.adds.Add(1)
			err = s.own(a.id, addresses)
		}
		return errors.Join(err, a.writeScratch())
	}
}

// end detaches a sandbox. It owns its addresses until the plugin is asked to free them.
func (s *stream) end(a *attachment) error {
	s.disown(a.id)
	err := a.end()
	s.dels.Add(1)
	s.runtime.drop(a.id)
	return err
}

// own notes the owner of addresses, which no other may have.
func (s *stream) own(id string, addresses []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range addresses {
		if other := s.owners[address]; other != "" {
			return fmt.Errorf("%s was given to %s while %s has it", address, id, other)
		}
		s.owners[address] = id
	}
	return nil
}

func (s *stream) disown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.owners, func(_, owner string) bool { return owner == id })
}

// live runs the living sandboxes in four threads. Most are short, and a sweep that meets them sees the file of an ADD under
// way. One in twenty, and some with a namespace, live longer than sweeps and look old.
func (s *stream) live(t *testing.T) {
	t.Helper()
	least, err := time.ParseDuration(cmp.Or(os.Getenv("STREAM_TIME"), "0s"))
	if err != nil {
		t.Fatalf("STREAM_TIME: %v", err)
	}
	began := time.Now()
	var workers, residents sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		workers.Go(func() {
			for {
				i := next.Add(1)
				if i > streamed && time.Since(began) > least || s.failed() {
					return
				}
				s.fail(s.liveOne(i, &residents))
			}
		})
	}
	workers.Wait()
	residents.Wait()
}

func (s *stream) liveOne(i int64, residents *sync.WaitGroup) error {
	a := s.attachment("/run/netns/cni-none")
	if i%(streamed/whole) == 0 {
		a.netns = fmt.Sprintf("/run/netns/cni-%ss-%d", tag, i)
	}
	if err := s.add(a); err != nil {
		return err
	}
	if i%20 != 0 && (!a.real() || i%3 != 0) {
		return s.end(a)
	}
	if !a.real() { // a namespace protects a sandbox that is not listed
		s.runtime.list(a.id)
	}
	err := a.age(time.Hour)
	residents.Go(func() {
		time.Sleep(resident)
		s.fail(s.end(a))
	})
	return err
}

// plant adds a sandbox that dies without a DEL. Some were listed; some had a namespace.
func (s *stream) plant(i int) error {
	a := s.attachment("/run/netns/cni-none")
	a.unnamed = i%2 == 0
	if i%10 == 0 {
		a.netns = fmt.Sprintf("/run/netns/cni-%sd-%d", tag, i)
	}
	if err := s.add(a); err != nil {
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
	s.disown(a.id)
	s.mu.Lock()
	s.dead = append(s.dead, slices.Sorted(maps.Keys(a.files))...)
	s.deadFiles[a.id] = len(a.files)
	s.mu.Unlock()
	return a.age(time.Hour)
}

// box is a sandbox that containerd runs.
type box struct {
	id    string
	files map[string]string
}

// runBoxes has containerd run the living sandboxes.
func (s *stream) runBoxes(t *testing.T) []box {
	t.Helper()
	living := make([]box, boxes)
	var running sync.WaitGroup
	for w := range 4 {
		running.Go(func() {
			for i := w; i < boxes; i += 4 {
				var err error
				living[i], err = s.runBox()
				s.fail(err)
			}
		})
	}
	running.Wait()
	if err := errors.Join(s.errs...); err != nil {
		t.Fatal(err)
	}
	return living
}

// restartBoxes has containerd run sandboxes that live for at least two sweeps.
func (s *stream) restartBoxes(stop <-chan struct{}) {
	for !s.failed() {
		b, err := s.runBox()
		if err != nil {
			s.fail(err)
			return
		}
		for seen := s.sweeps.Load(); s.sweeps.Load() < seen+2 && !s.failed(); {
			select {
			case <-stop:
				s.fail(s.endBox(b))
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.fail(s.endBox(b))
		s.restarts.Add(1)
	}
}

// runBox has containerd run a sandbox, and makes its files look old.
func (s *stream) runBox() (b box, err error) {
	config := s.node.sandboxConfig(uidOf(newID()))
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute) // the kubelet's
		answer, err := s.cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		cancel()
		if err != nil && strings.Contains(err.Error(), "no IP addresses available in range set") && !s.failed() {
			s.full.Add(1)
			config.Metadata.Attempt++
			continue
		}
		if err != nil {
			return b, err
		}
		b = box{answer.GetPodSandboxId(), map[string]string{}}
		break
	}
	var addresses []string
	for _, pattern := range []string{"results/*" + b.id + "*", "networks/" + s.ipam.network + "/*[.:]*"} {
		paths, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			return b, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(path+string(text), b.id) {
				continue // another sandbox's, which may end now
			}
			b.files[path] = string(text)
			if strings.Contains(pattern, "networks") {
				addresses = append(addresses, filepath.Base(path))
			}
		}
	}
	if len(b.files) != 4 || len(addresses) != 2 {
		return b, fmt.Errorf("containerd's sandbox %s has the files %v", b.id, slices.Sorted(maps.Keys(b.files)))
	}
	return b, errors.Join(s.own(b.id, addresses), ageAll(slices.Collect(maps.Keys(b.files)), time.Hour))
}

// endBox checks the files of a living sandbox, and has containerd end it.
func (s *stream) endBox(b box) error {
	err := unharmed(b.files)
	s.disown(b.id)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	_, stop := s.cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: b.id})
	_, remove := s.cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: b.id})
	return errors.Join(err, stop, remove)
}

// leftOfDead returns the files of dead sandboxes that still exist. An address may be another sandbox's by now.
func (s *stream) leftOfDead() []string {
	return slices.DeleteFunc(slices.Clone(s.dead), func(path string) bool {
		b, err := os.ReadFile(path)
		if err != nil {
			return true
		}
		id, _, _ := strings.Cut(string(b), "\r\n")
		return strings.HasPrefix(path, s.ipam.dataDir) && s.deadFiles[id] == 0
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
			if s.deadFiles[id] == 0 {
				t.Errorf("%s contains %s of the living sandbox %s", archive, path, id)
			}
			taken[id]++
		}
	}
	for id, files := range s.deadFiles {
		if taken[id] != files {
			t.Errorf("%d of %d files of %s are archived", taken[id], files, id)
		}
	}
}

var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// listed is a runtime with a list of sandboxes.
type listed struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	socket string
	mu     sync.Mutex
	ids    map[string]bool
}

func newListed(t *testing.T, socket string) *listed {
	t.Helper()
	l := &listed{socket: socket, ids: map[string]bool{}}
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
