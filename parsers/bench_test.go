package parsers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchLog returns a typical node's syslog: mostly other lines of the kubelet, containerd and systemd, of 100 to 400
// bytes, and one report in ten thousand lines.
func benchLog(tb testing.TB, size int) string {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	lines := []string{
		`Nov 21 00:37:12 node1 kubelet[21115]: I1121 00:37:12.892209   21115 kubelet_getters.go:219] "Pod status updated" pod="kube-system/hostnet-labnode%d" status="Running"`,
		`Nov 21 00:37:12 node1 kubelet[21115]: I1121 00:37:12.017770   21115 kubelet_volumes.go:163] "Cleaned up orphaned pod volumes dir" podUID="%08x-0000-4000-8000-000000000004" path="/var/lib/kubelet/pods/00000000-0000-4000-8000-000000000004/volumes"`,
		`Nov 21 00:37:12 node1 kubelet[21115]: E1121 00:37:12.126823   21115 pod_workers.go:1298] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"web\" with CrashLoopBackOff: \"back-off 5m0s restarting failed container=web pod=web-%d_default(6f1c2d3e-4a5b-4c6d-8e7f-00112233aa01)\"" pod="default/web" podUID="6f1c2d3e-4a5b-4c6d-8e7f-00112233aa01"`,
		`Nov 21 00:37:12 node1 containerd[811]: time="2026-11-21T00:37:12.014099021Z" level=info msg="StopPodSandbox for \"%064x\" returns successfully"`,
		`Nov 21 00:37:12 node1 systemd[1]: run-containerd-runc-k8s.io-%040x-runc.abcdef.mount: Deactivated successfully.`,
		`Nov 21 00:37:12 node1 kernel: [11859608.%06d] IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready`,
		`Nov 21 00:37:12 node1 kubelet[21115]: I1121 00:37:12.475744   21115 reconciler_common.go:218] "operationExecutor.MountVolume started for volume \"kube-api-access-%d\" (UniqueName: \"kubernetes.io/projected/6f1c2d3e-4a5b-4c6d-8e7f-00112233aa01-kube-api-access\") pod \"web\" (UID: \"6f1c2d3e-4a5b-4c6d-8e7f-00112233aa01\") " pod="default/web"`,
	}
	// The second kind contains the searched text; real kubelets rarely write it.
	path := filepath.Join(tb.TempDir(), "messages")
	file, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	b := bufio.NewWriterSize(file, 1<<20)
	for n, written := 0, 0; written < size; n++ {
		i := rnd.IntN(len(lines))
		if i == 1 && rnd.IntN(100) != 0 {
			i = 0
		}
		if n%10000 == 9999 {
			k, _ := fmt.Fprintf(b, `Nov 21 00:37:12 node1 kubelet[21115]: E1121 00:37:12.048022   21115 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"%08x-0000-4000-8000-000000000004\" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/%08x-0000-4000-8000-000000000004/volumes/kubernetes.io~nfs/v1: directory not empty" numErrs=8`+"\n", n, n)
			written += k
			continue
		}
		k, _ := fmt.Fprintf(b, lines[i]+"\n", n)
		written += k
	}
	if err := errors.Join(b.Flush(), file.Close()); err != nil {
		tb.Fatal(err)
	}
	return path
}

// benchSize is 1 GiB if make bench measures the figures of docs/benchmarks.md.
func benchSize() int {
	if os.Getenv("ORPHAN_REAPER_LONG") != "" {
		return 1 << 30
	}
	return 64 << 20
}

func scanFile(tb testing.TB, path string, o Parser) int {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	return len(scan(tb, f, o))
}

// BenchmarkScan parses a log from the page cache, alternating with grep -c -F, and reports the ratio of the medians.
// grep writes to a pipe, because it stops at the first hit if its output is /dev/null.
func BenchmarkScan(b *testing.B) {
	path := benchLog(b, benchSize())
	b.Run("reports", func(b *testing.B) { benchScan(b, path, Parser{}) })
	b.Run("hints", func(b *testing.B) { benchScan(b, path, Parser{Hints: true}) })
}

func benchScan(b *testing.B, path string, o Parser) {
	b.Helper()
	const rounds = 5
	var ours, grep []float64
	us := func() {
		begin := time.Now()
		if scanFile(b, path, o) == 0 {
			b.Fatal("nothing found")
		}
		ours = append(ours, time.Since(begin).Seconds())
	}
	they := func() {
		begin := time.Now()
		out, err := exec.Command("grep", "-c", "-F", "orphaned pod", path).Output()
		if err != nil || strings.TrimSpace(string(out)) == "0" {
			b.Skip("no grep: ", err)
		}
		grep = append(grep, time.Since(begin).Seconds())
	}
	for i := range b.N * rounds {
		if i%2 == 0 {
			us()
			they()
		} else {
			they()
			us()
		}
	}
	slices.Sort(ours)
	slices.Sort(grep)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours[len(ours)/2], "s")
	b.ReportMetric(grep[len(grep)/2], "grep-s")
	b.ReportMetric(ours[len(ours)/2]/grep[len(grep)/2], "ratio-to-grep")
}

// BenchmarkIndex measures the prefilter alone, on a log without any report.
func BenchmarkIndex(b *testing.B) {
	data, err := os.ReadFile(benchLog(b, 4<<20))
	if err != nil {
		b.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("rphaned"), []byte("rdinary"))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if Index(data) >= 0 {
			b.Fatal("found something")
		}
	}
}

// BenchmarkJunk measures the worst log that a program may write: every line contains a needle and none is a report.
func BenchmarkJunk(b *testing.B) {
	line := `Aug 31 14:21:49 mgt02 logger[991]: E0831 14:21:49.324206 2240370 kubelet_volumes.go:154] Orphaned pod "5da3387d-ad1c-11ea-a025-525400767782" found` + "\n"
	data := strings.Repeat(line, 10000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if len(scan(b, strings.NewReader(data), Parser{})) > 0 {
			b.Fatal("found something")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/line")
}
