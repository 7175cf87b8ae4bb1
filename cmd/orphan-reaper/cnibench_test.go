package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// benchLive is how many sandboxes live among the stale files, by their cgroups.
const benchLive = 250

// leaveCNI writes count stale cache files of 1.5 KiB into a directory, as libcni leaves them,
// and those of the sandboxes that live.
func (n *benchNode) leaveCNI(dir string, count int) {
	n.b.Helper()
	n.mkdir(dir)
	conf := base64.StdEncoding.EncodeToString([]byte(`{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,` +
		`"ipMasq":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}},` +
		`{"type":"portmap","capabilities":{"portMappings":true}},{"type":"firewall"},{"type":"tuning"}]}`))
	for i := range count + benchLive {
		id := fmt.Sprintf("%016x%048x", uint64(i)*11400714819323198485, i) // as real ones, one after another is not sorted
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

// BenchmarkSweepCNIWhole has one sweep judge, archive and remove 300,000 stale cache files,
// from the program's start to its end, beside rm, which does none of the three, by turns; and
// beside a script with processes for each file, on some hundred of them.
func BenchmarkSweepCNIWhole(b *testing.B) {
	count, rounds := testkit.Size(300_000, 3000), testkit.Size(3, 1)
	var ours, cpu, memory, theirs, script []float64
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
			b.Fatalf("%d files are left of %d that live", len(left), benchLive)
		}
		script = append(script, n.scriptCNI(testkit.Size(500, 20)))
		n.must(os.RemoveAll(n.dir)) // a round has a GiB
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(percentile(ours, 50), "s")
	b.ReportMetric(percentile(cpu, 50), "cpu-s")
	b.ReportMetric(percentile(memory, 100), "MiB-peak")
	b.ReportMetric(percentile(theirs, 50), "rm-s")
	b.ReportMetric(percentile(ours, 50)/percentile(theirs, 50), "ratio-to-rm")
	b.ReportMetric(percentile(script, 50)*1000, "script-ms/file")
	b.ReportMetric(percentile(ours, 50)/float64(count)/percentile(script, 50), "ratio-to-script")
}

// scriptCNI does what the cron job of StarlingX does for each name, a process for each step,
// and returns the seconds for one.
func (n *benchNode) scriptCNI(count int) float64 {
	n.b.Helper()
	dir := "script"
	n.mkdir(dir)
	for i := range count {
		n.write(fmt.Sprintf("%s/cbr0-%064x-eth0", dir, i), "{}")
	}
	const script = `pods=$2
for f in "$1"/*; do
	id=$(echo "$f" | sed -nE 's/^.*-([0-9a-zA-Z]{64})-[0-9a-zA-Z]+$/\1/p')
	[ -n "$id" ] || continue
	echo "$pods" | grep -q "$id" && continue
	age=$(( ($(date +%s) - $(stat -c %Z "$f")) / 3600 ))
	[ "$age" -ge 0 ] && rm -f "$f"
done`
	begin := time.Now()
	out, err := exec.Command("sh", "-c", script, "sh", n.path(dir), strings.Repeat("f", 64)).CombinedOutput()
	took := time.Since(begin).Seconds()
	left, rerr := os.ReadDir(n.path(dir))
	if err != nil || rerr != nil || len(left) > 0 {
		n.b.Fatalf("the script left %d: %v\n%s", len(left), err, out)
	}
	return took / float64(count)
}
