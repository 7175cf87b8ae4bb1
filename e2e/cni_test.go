package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cniDir has libcni's cache in Debian's containerd, which no configuration has, and host-local's addresses.
const cniDir = "/var/lib/cni"

// cniTurn serializes scenarios: all runtimes share that cache, and a daemon without a minimum age would remove files
// that another node's scenario has leaked.
var cniTurn sync.Mutex

// cniLeft: sandboxes are lost as on real nodes: their containers are removed without CRI and containerd is killed.
// Cache files, two addresses and the namespace remain, and the runtime does not list them. They are kept as long as
// the namespace exists; then exactly they are removed, and tar restores them.
func cniLeft(t *testing.T, n *node) {
	cniTurn.Lock()
	defer cniTurn.Unlock()
	cri := n.cri(t)
	n.kubelet.Kill() // a running kubelet would stop sandboxes of unknown pods
	lost := n.sandbox(t, cri, n.uid("0badf00d-a000-4000-8000-00000000001_"))
	blocked := n.sandbox(t, cri, n.uid("0badf00d-a000-4000-8000-00000000002_"))
	netns := n.netnsOf(t, lost)
	n.lose(t, cri, lost)
	leaked := n.cniFiles(t, lost)
	if len(leaked) != 4 || len(n.addresses(t, lost)) != 2 {
		t.Fatalf("leaked %v", slices.Sorted(maps.Keys(leaked)))
	}
	for path := range leaked {
		ageFile(t, path)
	}
	// Interrupted writes: of a sandbox that is not ready, and of a running one.
	broken := n.truncate(t, blocked)
	alive := n.truncate(t, n.living(t, cri))
	t.Cleanup(func() { write(t, alive.path, alive.text) }) // the kubelet could not end its pod
	if _, err := cri.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: blocked}); err == nil {
		t.Fatal("the empty cache file does not prevent the teardown")
	}
	before := n.cniFiles(t, "")
	n.startKubelet(t, "--minimum-container-ttl-duration=1h")

	d := n.reapCNI(t)
	eventually(t, 60*time.Second, func() string { return missing(!exists(broken.path), "the empty file of a dead sandbox remains") })
	n.dropSandbox(t, cri, blocked)
	throughout(t, 2*hold, func() string {
		for path := range leaked {
			if !exists(path) {
				return path + " was removed while its network namespace is there"
			}
		}
		return missing(exists(alive.path), "the empty file of a living sandbox was removed")
	})
	d.end(t)

	must(t, "ip", "netns", "delete", filepath.Base(netns))
	d = n.reapCNI(t)
	d.sweeps(t, leaked)
	d.promtool(t)
	after := n.cniFiles(t, "")
	for path, text := range before {
		_, gone := leaked[path]
		gone = gone || path == broken.path || strings.Contains(path+text, blocked)
		if got, there := after[path]; there == gone || there && got != text {
			t.Errorf("%s: exists: %v, content %q, want %q", path, there, got, text)
		}
	}
	d.end(t)
	must(t, "tar", "-xf", d.archive(t, leaked), "-C", "/")
	for path, text := range leaked {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("restored %s: %q, %v", path, b, err)
		}
	}
	d = n.reapCNI(t) // the restored files still belong to a sandbox that is gone
	d.sweeps(t, leaked)
	d.end(t)
	n.restartKubelet(t)
}

func (n *node) reapCNI(t *testing.T) *daemon {
	t.Helper()
	return n.reap(t, "--cni-dir", cniDir, "--cni-older-than", "1s")
}

// sweeps waits until the files are removed, and checks that a tar has them.
func (d *daemon) sweeps(t *testing.T, files map[string]string) {
	t.Helper()
	eventually(t, 60*time.Second, func() string {
		for path := range files {
			if exists(path) {
				return path + " is still there"
			}
		}
		return missing(d.Running(), "the daemon has ended")
	})
	d.archive(t, files)
}

// archive returns the newest tar that has all these files.
func (d *daemon) archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var found string
	for _, path := range below(t, d.state) {
		if strings.HasSuffix(path, ".tar.gz") && holds(t, path, files) {
			found = path
		}
	}
	if found == "" {
		t.Fatalf("no archive in %v has %v", below(t, d.state), slices.Sorted(maps.Keys(files)))
	}
	return found
}

func below(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// holds reports whether the archive has all these files.
func holds(t *testing.T, archive string, files map[string]string) bool {
	t.Helper()
	in := archived(t, archive)
	for path, text := range files {
		if in[path] != text {
			return false
		}
	}
	return true
}

// archived returns the files of an archive by path.
func archived(t *testing.T, archive string) map[string]string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(archive, err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(archive, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(archive, err)
		}
		files["/"+strings.TrimPrefix(h.Name, "/")] = string(text)
	}
}

// promtool checks the metrics with Prometheus' own tool. The daemon writes them at the end of a pass.
func (d *daemon) promtool(t *testing.T) {
	t.Helper()
	var b []byte
	eventually(t, 30*time.Second, func() string {
		var err error
		b, err = os.ReadFile(d.metrics)
		return missing(err == nil, "no metrics: %v", err)
	})
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// lose removes a sandbox's containers without CRI, and kills the runtime, which loses its state of them.
func (n *node) lose(t *testing.T, cri runtimeapi.RuntimeServiceClient, id string) {
	t.Helper()
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: id}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.GetContainers() {
		must(t, "ctr", "-a", n.socket(engine), "-n", "k8s.io", "containers", "rm", c.GetId())
	}
	must(t, "ctr", "-a", n.socket(engine), "-n", "k8s.io", "containers", "rm", id)
	n.runtime.Kill()
	n.runtime = n.startRuntime(t, engine)
	eventually(t, 60*time.Second, func() string {
		return missing(state(t.Context(), cri, id) == "gone", "the sandbox is %s", state(t.Context(), cri, id))
	})
}

// living returns the sandbox of the living pod on the bridge.
func (n *node) living(t *testing.T, cri runtimeapi.RuntimeServiceClient) string {
	t.Helper()
	boxes, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": n.livingPods(t)[1].uid},
	}})
	if err != nil || len(boxes.GetItems()) != 1 {
		t.Fatalf("the living pod's sandboxes: %v, %v", boxes.GetItems(), err)
	}
	return boxes.GetItems()[0].GetId()
}

type file struct{ path, text string }

// truncate empties the sandbox's cache file, like a crash during the write.
func (n *node) truncate(t *testing.T, id string) file {
	t.Helper()
	f := file{path: filepath.Join(cniDir, "results", n.tag+"-"+id+"-eth0")}
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.text = string(b)
	write(t, f.path, "")
	ageFile(t, f.path)
	return f
}

// ageFile makes a file an hour old. One that is younger than ten minutes may be that of an ADD under way.
func ageFile(t *testing.T, path string) {
	t.Helper()
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, hour, hour); err != nil {
		t.Fatal(err)
	}
}

var sandboxPath = regexp.MustCompile(`"sandbox":"([^"]+)"`)

// netnsOf returns the sandbox's network namespace from its cache file.
func (n *node) netnsOf(t *testing.T, id string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cniDir, "results", n.tag+"-"+id+"-eth0"))
	if err != nil {
		t.Fatal(err)
	}
	m := sandboxPath.FindSubmatch(b)
	if m == nil || !exists(string(m[1])) {
		t.Fatalf("no namespace in %s", b)
	}
	return string(m[1])
}

// cniFiles returns CNI's files of a sandbox by path; with no ID those of all sandboxes of the node.
func (n *node) cniFiles(t *testing.T, id string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{cniDir + "/results/*", cniDir + "/networks/" + n.tag + "/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				continue // the other node's
			}
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(path)
			own := strings.HasPrefix(name, n.tag+"-") || strings.Contains(path, "/networks/") && name != "lock" && !strings.HasPrefix(name, "last_")
			if id == "" && own || id != "" && strings.Contains(path+string(b), id) {
				all[path] = string(b)
			}
		}
	}
	return all
}

// addresses returns the addresses that the IPAM store has allocated to a sandbox.
func (n *node) addresses(t *testing.T, id string) (all []string) {
	t.Helper()
	for path := range n.cniFiles(t, id) {
		if strings.Contains(path, "/networks/") {
			all = append(all, filepath.Base(path))
		}
	}
	return all
}
