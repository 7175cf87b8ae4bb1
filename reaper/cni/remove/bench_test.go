package remove

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// BenchmarkRemoveCNI removes 100,000 result caches of 1.5 KiB, in batches of 4,096, against
// rm of the same directory. The files are read for the batch outside of the time, as the
// probe reads them before.
func BenchmarkRemoveCNI(b *testing.B) {
	n := testkit.Size(100_000, 8192)
	content := bytes.Repeat([]byte("x"), 1500)
	var ours, cpu, theirs []float64
	for range b.N * testkit.Size(3, 1) {
		x := newCNI(b, os.Getenv("BENCH_NO_OPENAT2") == "1")
		x.Mkdir(x.Base + "/rm")
		files := make([]cni.File, n)
		for i := range n {
			name := fmt.Sprintf("podnet-%064x-eth0", uint32(i)*2654435761)
			x.Must(os.WriteFile(x.Base+"/rm/"+name, content, 0o600))
			x.Must(os.WriteFile(x.results+"/"+name, content, 0o600))
			files[i] = x.read(cni.Cache, x.results, name)
		}
		unix.Sync()
		begin, used := time.Now(), cpuTime(b)
		for batch := range slices.Chunk(files, 4096) {
			for _, o := range x.r.remove(context.Background(), batch) {
				if o.Result != policy.Done {
					b.Fatalf("%+v", o)
				}
			}
		}
		ours = append(ours, float64(time.Since(begin).Nanoseconds())/float64(n))
		cpu = append(cpu, float64(cpuTime(b)-used)/float64(n))
		begin = time.Now()
		if out, err := exec.Command("rm", "-rf", x.Base+"/rm").CombinedOutput(); err != nil {
			b.Fatalf("rm: %v %s", err, out)
		}
		theirs = append(theirs, float64(time.Since(begin).Nanoseconds())/float64(n))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testkit.Median(ours), "ns/file")
	b.ReportMetric(testkit.Median(cpu), "cpu-ns/file")
	b.ReportMetric(testkit.Median(theirs), "rm-ns/file")
	b.ReportMetric(testkit.Median(ours)/testkit.Median(theirs), "ratio-to-rm")
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// BenchmarkRemoveAddresses releases the addresses of a /16, a lock and a check for each.
func BenchmarkRemoveAddresses(b *testing.B) {
	n := testkit.Size(65_000, 4096)
	var ours []float64
	for range b.N * testkit.Size(3, 1) {
		x := newCNI(b, false)
		files := make([]cni.File, n)
		for i := range n {
			files[i] = x.address(i, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		}
		unix.Sync()
		begin := time.Now()
		for batch := range slices.Chunk(files, 4096) {
			for _, o := range x.r.remove(context.Background(), batch) {
				if o.Result != policy.Done {
					b.Fatalf("%+v", o)
				}
			}
		}
		ours = append(ours, float64(time.Since(begin).Nanoseconds())/float64(n))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testkit.Median(ours), "ns/file")
}
