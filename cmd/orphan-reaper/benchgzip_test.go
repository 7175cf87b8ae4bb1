package main

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// BenchmarkParseGzip has the program read a log that gzip compressed to a sixth or so, by turns with
// gzip -dc into wc -c. What is compared is processor time: gzip and wc are two processes.
func BenchmarkParseGzip(b *testing.B) {
	n := newBenchNode(b)
	path := n.path("log.gz")
	f, err := os.Create(path)
	n.must(err)
	zip := gzip.NewWriter(f)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range testkit.Size(1_000_000, 200_000) {
		what := fmt.Sprintf(`I1121 00:37:12.475744   21115 reconciler_common.go:218] "operationExecutor.MountVolume started" podUID="%016x%016x"`,
			rnd.Uint64(), rnd.Uint64())
		if i%10_000 == 9_999 {
			what = `E1121 00:37:12.048022   21115 kubelet_volumes.go:263] Orphaned pod "6f1c2d3e-4a5b-4c6d-8e7f-00112233aa01" found, but volume paths are still present`
		}
		_, err = fmt.Fprintf(zip, "Nov 21 00:%02d:%02d node1 kubelet[21115]: %s\n", i/60%60, i%60, what)
		n.must(err)
	}
	n.must(zip.Close())
	n.must(f.Close())
	var ours, theirs []float64
	took := func(cmd *exec.Cmd, want string) float64 {
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), want) {
			b.Fatalf("%v: %v: %.200s", cmd, err, out)
		}
		return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	for range b.N * testkit.Size(5, 3) {
		cmd := exec.Command(cmp.Or(os.Getenv(benchProgramEnv), "orphan-reaper"), "parse", "-o", "json", path) // parse looks at no node
		ours = append(ours, took(cmd, "6f1c2d3e"))
		theirs = append(theirs, took(exec.Command("sh", "-c", `gzip -dc "$0" | wc -c`, path), "0"))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testkit.Median(ours), "cpu-s")
	b.ReportMetric(testkit.Median(theirs), "gzip-cpu-s")
	b.ReportMetric(testkit.Median(ours)/testkit.Median(theirs), "ratio-to-gzip")
}
