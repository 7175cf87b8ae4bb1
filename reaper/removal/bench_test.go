package removal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// size reads a benchmark's size from the environment: the full ones take minutes.
func size(b *testing.B, name string, otherwise int) int {
	b.Helper()
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return otherwise
}

// BenchmarkRemovePods removes pod trees (BENCH_PODS, 3,000 in the figures of the docs)
// from quarantine, against rm -rf of the same trees, by turns. ratio is ours by rm's.
func BenchmarkRemovePods(b *testing.B) {
	n := size(b, "BENCH_PODS", 300)
	against(b, func(tr *tree, dir string) []policy.Action {
		actions := make([]policy.Action, n)
		for i := range actions {
			uid := parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i))
			entry := string(uid) + ".1"
			tr.build(dir+"/"+entry, podTree...)
			tr.must(os.WriteFile(dir+"/"+entry+".json", []byte("{}"), 0o600))
			actions[i] = policy.Action{Kind: policy.Purge, UID: uid, Entry: entry, ID: idAt(b, dir+"/"+entry), Take: policy.TakeAll}
		}
		return actions
	})
}

// podTree is what a dead pod leaves: some 40 entries.
var podTree = []string{
	"file etc-hosts 200", "file containers/app/0a1b2c3d 0", "file containers/side/0a1b2c3e 0",
	"dir plugins/kubernetes.io~empty-dir/cache", "file plugins/kubernetes.io~empty-dir/cache/ready 0",
	"dir plugins/kubernetes.io~empty-dir/wrapped_token", "file plugins/kubernetes.io~empty-dir/wrapped_token/ready 0",
	"file volumes/kubernetes.io~csi/pvc-1/vol_data.json 500", "dir volumes/kubernetes.io~csi/pvc-1/mount",
	"file volumes/kubernetes.io~projected/token/..2024/ca.crt 1100", "file volumes/kubernetes.io~projected/token/..2024/token 900",
	"link volumes/kubernetes.io~projected/token/..data ..2024", "link volumes/kubernetes.io~projected/token/ca.crt ..data/ca.crt",
	"link volumes/kubernetes.io~projected/token/token ..data/token",
	"file volumes/kubernetes.io~configmap/conf/..2024/app.yaml 2000", "link volumes/kubernetes.io~configmap/conf/..data ..2024",
	"link volumes/kubernetes.io~configmap/conf/app.yaml ..data/app.yaml",
	"file volumes/kubernetes.io~empty-dir/cache/a/one 5000", "file volumes/kubernetes.io~empty-dir/cache/a/two 9000",
	"file volumes/kubernetes.io~empty-dir/cache/b/three 100", "file volumes/kubernetes.io~empty-dir/cache/b/c/four 100",
	"file volume-subpaths/conf/app/0 0",
}

// BenchmarkRemoveWide removes files of one directory (BENCH_FILES, 100,000 and a million in
// the figures of the docs).
func BenchmarkRemoveWide(b *testing.B) {
	n := size(b, "BENCH_FILES", 20_000)
	against(b, func(tr *tree, dir string) []policy.Action {
		at := dir + "/" + entryA + "/volumes/kubernetes.io~empty-dir/wide"
		tr.mkdir(at)
		for i := range n {
			fd, err := unix.Open(fmt.Sprintf("%s/file-%x", at, uint32(i)*2654435761), unix.O_CREAT|unix.O_WRONLY, 0o644)
			tr.must(err)
			tr.must(unix.Close(fd))
		}
		tr.must(os.WriteFile(dir+"/"+entryA+".json", []byte("{}"), 0o600))
		return []policy.Action{{Kind: policy.Purge, UID: uidA, Entry: entryA, Take: policy.TakeAll}}
	})
}

// against builds the same tree twice and has each removed, by turns, and who is first
// changes. Only the removal is timed; ours includes its sync.
func against(b *testing.B, build func(tr *tree, dir string) []policy.Action) {
	b.Helper()
	var ours, theirs []float64
	for i := range b.N {
		b.StopTimer()
		tr := newTree(b)
		tr.mkdir(tr.quar)
		tr.must(os.Chmod(tr.quar, 0o700))
		r := tr.open(os.Getenv("BENCH_NO_OPENAT2") == "1")
		actions := build(tr, tr.quar)
		build(tr, tr.base+"/rm")
		unix.Sync()
		us := func() {
			b.StartTimer()
			begin := time.Now()
			for batch := range slices.Chunk(actions, policy.BatchSize) {
				for _, o := range r.Execute(context.Background(), policy.Plan{Actions: batch}) {
					if o.Result != policy.Done {
						b.Fatalf("%+v", o)
					}
				}
			}
			ours = append(ours, time.Since(begin).Seconds())
			b.StopTimer()
		}
		rm := func() {
			begin := time.Now()
			if out, err := exec.Command("rm", "-rf", tr.base+"/rm").CombinedOutput(); err != nil {
				b.Fatalf("rm: %v %s", err, out)
			}
			theirs = append(theirs, time.Since(begin).Seconds())
		}
		if i%2 == 0 {
			us()
			rm()
		} else {
			rm()
			us()
		}
		b.StartTimer()
	}
	b.ReportMetric(median(ours)/median(theirs), "ratio")
	b.ReportMetric(median(theirs)*1e9, "rm-ns/op")
	b.ReportMetric(median(ours)*1e9, "our-ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
