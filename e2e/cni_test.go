package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cacheDir is libcni's cache directory in Debian's containerd, which no configuration has.
const cacheDir = "/var/lib/cni"

// cniTurn serializes scenarios: all runtimes share that cache, and a daemon without a minimum age would remove files
// that another node's scenario has leaked.
var cniTurn sync.Mutex

// cniLeft: sandboxes are lost as on real nodes: their containers are removed without CRI and containerd is killed.
// Cache files, two addresses and the namespace remain, and the runtime does not list them. They are kept as long as
// the namespace exists; then exactly they are removed. The addresses are allocated again, and the removed files can
// be restored.
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
	if kinds := fmt.Sprint(len(leaked), n.addresses(t, lost)); len(leaked) != 4 || len(n.addresses(t, lost)) != 2 {
		t.Fatalf("leaked %s of %v", kinds, slices.Sorted(maps.Keys(leaked)))
	}
	// Interrupted writes: of a sandbox that is not ready, and of a running one.
	broken := n.truncate(t, blocked)
	alive := n.truncate(t, n.living(t, cri))
	t.Cleanup(func() { write(t, alive.path, alive.text) }) // the kubelet could not end its pod
	_, err := cri.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: blocked})
	if err == nil {
		t.Fatal("the empty cache file does not prevent the teardown")
	}
	hindered := err.Error()
	before := n.cniFiles(t, "")
	n.startKubelet(t, "--minimum-container-ttl-duration=1h")
	n.verbose = false

	d := n.reapCNI(t)
	repaired := d.sweeps(t, broken.path)
	if repaired.Taken[string(cni.Cache)].Entries == 0 || exists(broken.path) {
		t.Errorf("repaired: %+v", repaired)
	}
	n.dropSandbox(t, cri, blocked)
	compared.addCNI(n.version, cniNotReady, cniRow{
		"StopPodSandbox: `" + hindered[strings.LastIndex(hindered, ": ")+2:] + "`", "archived and removed", "StopPodSandbox succeeds",
	})
	if m := d.keeps(t, []string{alive.path}, policy.ReasonSandbox, policy.ReasonInUse, policy.ReasonNetns); m != "" {
		t.Error(m)
	}
	compared.addCNI(n.version, cniReady, cniRow{"it is ready", "kept: " + string(policy.ReasonSandbox), "it stays empty; its pod lives"})
	eventually(t, 60*time.Second, func() string { return d.keeps(t, slices.Sorted(maps.Keys(leaked)), policy.ReasonNetns) })
	throughout(t, 2*hold, func() string { return d.keeps(t, slices.Sorted(maps.Keys(leaked)), policy.ReasonNetns) })
	d.end(t)
	compared.addCNI(n.version, cniLost, cniRow{"nothing: it does not list it", "kept: " + string(policy.ReasonNetns), "all stays"})

	must(t, "ip", "netns", "delete", filepath.Base(netns))
	d = n.reapCNI(t)
	record := d.sweeps(t, slices.Sorted(maps.Keys(leaked))...)
	if got := record.Taken[string(cni.Address)].Entries; got != 2 || !slices.Contains(record.Pods, "e2e/forgotten") || record.Undo == "" {
		t.Errorf("swept: %+v", record)
	}
	d.oneRecordEach(t)
	d.waitMetric(t, `cni_removed_files_total{kind="address"} 2`)
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
	d.undoes(t, record.Archive, leaked, n.addresses(t, lost))
	compared.addCNI(n.version, cniGone, cniRow{"nothing: it does not list it", "archived and removed", "host-local gives the addresses out again"})
	compared.addCNI(n.version, cniGiven, cniRow{"nothing", "refused: the address is in use", "put back after the other sandbox's DEL"})
	n.restartKubelet(t)
}

// undoes makes the real plugin allocate a freed address and release it, and restores the archive before and after.
func (d *daemon) undoes(t *testing.T, archive string, files map[string]string, freed []string) {
	t.Helper()
	n := d.node
	if len(freed) > 0 {
		t.Fatalf("still reserved: %v", freed)
	}
	ipam := ipamStore{network: n.tag, dataDir: filepath.Join(n.dir, "ipam"), ranges: n.ranges()}
	var held []string // freed addresses that the plugin has allocated
	const other = "other-than-was-lost"
	for range 300 {
		given, err := ipam.plugin(t.Context(), "ADD", other)
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range given {
			if path := filepath.Join(ipam.dataDir, n.tag, address); files[path] != "" {
				held = append(held, path)
			}
		}
		if len(held) > 0 {
			break
		}
		if _, err := ipam.plugin(t.Context(), "DEL", other); err != nil {
			t.Fatal(err)
		}
	}
	if len(held) == 0 {
		t.Fatal("the plugin does not allocate a freed address")
	}
	rest := len(files) - len(held)
	out := d.restores(t, archive, 1)
	if !strings.Contains(out, fmt.Sprintf("put back: %d CNI files\n", rest)) {
		t.Errorf("with %s in use: %s", held, out)
	}
	for _, path := range held {
		if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), other) ||
			!strings.Contains(out, "cannot put back "+path+": at "+path+" there is another reservation: the address is in use") {
			t.Errorf("%s contains %q, %v: %s", path, b, err, out)
		}
	}
	if _, err := ipam.plugin(t.Context(), "DEL", other); err != nil || slices.ContainsFunc(held, exists) {
		t.Errorf("DEL of %s: %v", held, err)
	}
	if out := d.restores(t, archive, 0); !strings.Contains(out, fmt.Sprintf("put back: %d CNI file", len(held))) ||
		!strings.Contains(out, fmt.Sprintf("already there: %d CNI files\n", rest)) {
		t.Errorf("with %s free: %s", held, out)
	}
	for path, text := range files {
		b, err := os.ReadFile(path)
		st, serr := os.Stat(path)
		if err != nil || serr != nil || string(b) != text || st.Mode() != 0o600 && !strings.HasPrefix(path, ipam.dataDir) {
			t.Errorf("restored %s: %q, %v, %v", path, b, errors.Join(err, serr), st)
		}
	}
	// The restored files still belong to a sandbox that is gone.
	d = n.reapCNI(t)
	d.sweeps(t, slices.Sorted(maps.Keys(files))...)
	d.end(t)
}

func (n *node) reapCNI(t *testing.T) *daemon {
	t.Helper()
	// The dataDir is in the network's configuration.
	return n.reap(t, "--cni-cache-dir", cacheDir, "--cni-conf-dir", filepath.Join(n.dir, "cni"), "--cni-older-than", "1s")
}

// sweeps waits until the files are removed, and returns their only record.
func (d *daemon) sweeps(t *testing.T, paths ...string) policy.Record {
	t.Helper()
	var found policy.Record
	eventually(t, 60*time.Second, func() string {
		if !d.Running() {
			return "the daemon has ended"
		}
		for _, path := range paths {
			if exists(path) {
				return path + " is still there"
			}
		}
		for _, r := range d.records() {
			if r.Kind == policy.KindCNIRemoved && d.holds(t, r.Archive, paths) {
				found = r
				return ""
			}
		}
		return fmt.Sprintf("no record tells of %v", paths)
	})
	return found
}

func (d *daemon) holds(t *testing.T, archive string, paths []string) bool {
	t.Helper()
	files := archived(t, d.archive(archive))
	return !slices.ContainsFunc(paths, func(path string) bool {
		return !slices.ContainsFunc(files, func(f file) bool { return filepath.Base(f.path) == filepath.Base(path) })
	})
}

// archive returns the path of an archive.
func (d *daemon) archive(name string) string {
	return filepath.Join(d.state, "archive", name+".tar.gz")
}

func archived(t *testing.T, path string) (files []file) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(path, err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(path, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(path, err)
		}
		if !strings.HasPrefix(h.Name, "orphan-reaper.") { // the archive's own members
			files = append(files, file{h.Name, string(text)})
		}
	}
}

// oneRecordEach checks that each batch has one record, however many files are in it, and returns the number of
// batches.
func (d *daemon) oneRecordEach(t *testing.T) int {
	t.Helper()
	records := map[string]int{}
	for _, r := range d.records() {
		if r.Kind == policy.KindCNIRemoved {
			records[r.Archive]++
		}
	}
	for batch, times := range records {
		if times != 1 {
			t.Errorf("%s has %d records", batch, times)
		}
	}
	return len(records)
}

// keeps returns the difference from a scan that keeps the files for exactly those reasons.
func (d *daemon) keeps(t *testing.T, paths []string, reasons ...policy.Reason) string {
	t.Helper()
	var r struct {
		CNI []struct {
			Path    string
			Verdict policy.Decision
			Reasons []policy.Reason
		}
	}
	if err := json.Unmarshal([]byte(d.command(t, "scan", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	missing := slices.Clone(paths)
	for _, f := range r.CNI {
		if f.Verdict == policy.Keep && slices.Equal(f.Reasons, reasons) {
			missing = slices.DeleteFunc(missing, func(path string) bool { return path == f.Path && exists(path) })
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("not kept for %v: %v of %+v", reasons, missing, r.CNI)
	}
	return ""
}

// promtool checks the metrics with Prometheus' own tool.
func (d *daemon) promtool(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(d.metrics)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func (d *daemon) restores(t *testing.T, archive string, code int) string {
	t.Helper()
	cmd := exec.Command(d.binary(), append([]string{"quarantine", "restore", archive}, d.flags...)...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("quarantine restore %s: %d, %v\n%s", archive, got, err, out)
	}
	return string(out)
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
	f := file{path: filepath.Join(cacheDir, "results", n.tag+"-"+id+"-eth0")}
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.text = string(b)
	write(t, f.path, "")
	return f
}

var sandboxPath = regexp.MustCompile(`"sandbox":"([^"]+)"`)

// netnsOf returns the sandbox's network namespace from its cache file.
func (n *node) netnsOf(t *testing.T, id string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cacheDir, "results", n.tag+"-"+id+"-eth0"))
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
	for _, pattern := range []string{cacheDir + "/results/*", n.dir + "/ipam/*/*"} {
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
			own := strings.HasPrefix(name, n.tag+"-") || strings.HasPrefix(path, n.dir) && name != "lock" && !strings.HasPrefix(name, "last_")
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
		if strings.HasPrefix(path, n.dir) {
			all = append(all, filepath.Base(path))
		}
	}
	return all
}
