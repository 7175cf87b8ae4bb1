package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// cni makes the program sweep the node's CNI directories as well, with files of any age.
func (n *wholeNode) cni() {
	n.mkdir("cni/results")
	n.mkdir("cni/networks/cbr0")
	n.args = append(n.args, "--cni-older-than", "0s")
}

// cache writes the cache file of a sandbox that is gone, of the pod NAMESPACE/name.
func (n *wholeNode) cache(i int, name, config string) (file string) {
	n.t.Helper()
	id := fmt.Sprintf("%064x", i+0xabc)
	text, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": id, "config": config, "ifName": "eth0", "networkName": "cbr0", "netns": "/run/netns/cni-whole-" + id[:8],
		"cniArgs": [][2]string{{"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", name}, {"K8S_POD_INFRA_CONTAINER_ID", id}, {"K8S_POD_UID", wholeUID(i)}},
		"result":  map[string]any{"cniVersion": "1.0.0"},
	})
	testkit.Must(n.t, err)
	file = "cni/results/cbr0-" + id + "-eth0"
	n.write(file, string(text))
	return file
}

func (n *wholeNode) archives() (names []string) {
	n.t.Helper()
	files, err := filepath.Glob(n.path("state/archive/*"))
	testkit.Must(n.t, err)
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".tar.gz"))
	}
	return names
}

// TestWholeCNINames checks names in these directories that any process may have chosen: an invalid pod name is not
// shown as one, a file whose name belongs to no container is kept, and no name starts a line or moves the cursor.
func TestWholeCNINames(t *testing.T) {
	n := newWholeNode(t)
	n.cni()
	file := n.cache(1, "web\nFORGED: removed\x1b[2J\r0", "")
	odd := "cni/results/cbr0\nFORGED-" + fmt.Sprintf("%064x", 7) + "-eth0\x1b[2J"
	n.write(odd, "")
	var logged bytes.Buffer
	cmd := n.command("sweep")
	cmd.Stderr = &logged
	out, _ := cmd.Output() // the exit code does not matter
	listed, _ := n.run("quarantine", "list")
	if _, err := os.Lstat(n.path(file)); err == nil {
		t.Errorf("%q was kept\n%s\n%s", file, out, logged.String())
	}
	if _, err := os.Lstat(n.path(odd)); err != nil {
		t.Errorf("%q belongs to no container and was removed", odd)
	}
	for what, text := range map[string]string{"table": string(out), "log": logged.String(), "list": listed} {
		if m := regexp.MustCompile(`(?m)^\s*FORGED|\x1b\[2J|\r`).FindString(text); m != "" {
			t.Errorf("the %s has %q:\n%q", what, m, text)
		}
	}
	if !strings.Contains(string(out), `cbr0\nFORGED`) {
		t.Errorf("the table lacks the kept file:\n%s", out)
	}
	if archives := n.archives(); len(archives) != 1 {
		t.Fatalf("archives %q", archives)
	} else if out, code := n.run("quarantine", "restore", archives[0]); code != 0 {
		t.Errorf("restore: %d\n%s", code, out)
	}
	if _, err := os.Lstat(n.path(file)); err != nil {
		t.Errorf("%q was not restored", file)
	}
}

// benchLive is the number of sandboxes that live among the stale files, by their cgroups.
const benchLive = 250

// leaveCNI writes count stale cache files of 1.5 KiB into a directory, like libcni's, and those of the living
// sandboxes.
func (n *benchNode) leaveCNI(dir string, count int) {
	n.b.Helper()
	n.mkdir(dir)
	conf := base64.StdEncoding.EncodeToString([]byte(`{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,` +
		`"ipMasq":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}},` +
		`{"type":"portmap","capabilities":{"portMappings":true}},{"type":"firewall"},{"type":"tuning"}]}`))
	for i := range count + benchLive {
		id := fmt.Sprintf("%016x%048x", uint64(i)*11400714819323198485, i) // like real ones, successive IDs are not sorted
		uid := n.uid()
		text := `{"kind":"cniCacheV1","containerId":"` + id + `","config":"` + conf + `","ifName":"eth0","networkName":"cbr0","netns":"/run/netns/cni-bench-` +
			id[:16] + `","cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web-` + strconv.Itoa(i) +
			`"],["K8S_POD_INFRA_CONTAINER_ID","` + id + `"],["K8S_POD_UID","` + uid + `"]],"capabilityArgs":{"dns":{"Servers":["10.96.0.10"],` +
			`"Searches":["shop.svc.cluster.local","svc.cluster.local"],"Options":["ndots:5"]}},"result":{"cniVersion":"1.0.0","dns":{},` +
			`"interfaces":[{"name":"cni0","mac":"5e:c5:b1:4e:56:ae"},{"name":"eth0","mac":"a2:d8:4d:0b:97:00","sandbox":"/run/netns/cni-bench-` + id[:16] +
			`"}],"ips":[{"interface":1,"address":"10.88.0.7/16","gateway":"10.88.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}}`
		n.must(os.WriteFile(filepath.Join(n.path(dir), "cbr0-"+id+"-eth0"), []byte(text), 0o600))
		if i < benchLive {
			n.mkdir("cgroup/kubepods/burstable/pod" + uid + "/cri-containerd-" + id + ".scope")
		}
	}
}

// BenchmarkSweepCNIWhole measures one sweep that judges, archives and removes 300,000 stale cache files, from the
// program's start to its end, alternating with rm, which only removes.
func BenchmarkSweepCNIWhole(b *testing.B) {
	count, rounds := testkit.Size(300_000, 3000), testkit.Size(3, 1)
	var ours, cpu, memory, theirs []float64
	for i := range b.N * rounds {
		n := newBenchNode(b)
		n.args = append(n.args, "--runtime-endpoint", "none", "--cni-older-than", "0s")
		n.leaveCNI("rm", count)
		n.leaveCNI("cni/results", count)
		us := func() {
			begin := time.Now()
			cmd := n.command("sweep")
			out, err := cmd.CombinedOutput()
			ours = append(ours, time.Since(begin).Seconds())
			if err != nil {
				b.Fatalf("%v\n%.2000s", err, out)
			}
			usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
			memory = append(memory, float64(usage.Maxrss)/1024)
		}
		rm := func() {
			begin := time.Now()
			n.must(exec.Command("rm", "-rf", n.path("rm")).Run())
			theirs = append(theirs, time.Since(begin).Seconds())
		}
		if i%2 == 0 {
			us()
			rm()
		} else {
			rm()
			us()
		}
		left, err := os.ReadDir(n.path("cni/results"))
		n.must(err)
		if len(left) != benchLive {
			b.Fatalf("%d files remain, want the %d living ones", len(left), benchLive)
		}
		n.must(os.RemoveAll(n.dir)) // each round uses a GiB
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(percentile(ours, 50), "s")
	b.ReportMetric(percentile(cpu, 50), "cpu-s")
	b.ReportMetric(percentile(memory, 100), "MiB-peak")
	b.ReportMetric(percentile(theirs, 50), "rm-s")
	b.ReportMetric(percentile(ours, 50)/percentile(theirs, 50), "ratio-to-rm")
}
