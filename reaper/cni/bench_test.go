package cni

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// BenchmarkSweep judges, archives and removes stale cache files of 1 KiB, and reports the peak of the resident memory.
// "read" is the part without a permit, and rm what os.RemoveAll needs for the same files.
func BenchmarkSweep(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // as in the program
	for _, count := range []int{3_000, 30_000, 300_000} {
		for _, what := range []string{"read", "remove", "rm"} {
			b.Run(fmt.Sprintf("%s/%d", what, count), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					n := newNode(b)
					for i := range count {
						id := idOf(strconv.Itoa(i))
						n.write("cni/multus/results/cbr0-"+id+"-net1", cacheText("cbr0", id, "net1", deadUID, "/var-run/netns/"+id))
					}
					s, err := New(n.cfg)
					must(b, err)
					must(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets the peak: proc_pid_clear_refs(5)
					b.StartTimer()
					switch what {
					case "rm":
						must(b, os.RemoveAll(n.path("cni")))
					case "read":
						if got := n.sweepBy(s, judge.Standing{}); got.Stale != count {
							b.Fatalf("%+v", got)
						}
					default:
						if got := n.sweepBy(s, standingOf(n)); got.Removed != count {
							b.Fatalf("%+v", got)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/file")
				b.ReportMetric(float64(peak(b)), "MiB-peak")
			})
		}
	}
}

// peak returns the peak of the resident memory in MiB.
func peak(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	must(b, err)
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	kib := 0
	_, err = fmt.Sscan(string(rest), &kib)
	must(b, err)
	return kib >> 10
}
