package removal

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

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// size returns the size of the figures in docs/benchmarks.md, which takes minutes and which
// make bench asks for by ORPHAN_REAPER_LONG, or a small one.
func size(long, short int) int {
	if os.Getenv("ORPHAN_REAPER_LONG") != "" {
		return long
	}
	return short
}

// BenchmarkRemovePods removes 3,000 pod trees from quarantine, against rm -rf of the same
// trees.
func BenchmarkRemovePods(b *testing.B) {
	n := size(3000, 300)
	against(b, size(5, 1), func(tr *tree, dir string) []policy.Action {
		actions := make([]policy.Action, n)
		for i := range actions {
			uid := parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i))
			entry := string(uid) + ".1"
			tr.build(dir+"/"+entry, podTree...)
			tr.must(os.WriteFile(dir+"/"+entry+".json", []byte("{}"), 0o600))
			actions[i] = policy.Action{Kind: policy.Purge, UID: uid, Entry: entry, ID: idAt(b, dir+"/"+entry), Take: contents.TakeAll}
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

// BenchmarkRemoveWide removes the files of one directory, 100,000 and a million.
func BenchmarkRemoveWide(b *testing.B) {
	for _, n := range []int{size(100_000, 10_000), size(1_000_000, 20_000)} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { removeWide(b, n) })
	}
}

func removeWide(b *testing.B, n int) {
	b.Helper()
	against(b, size(3, 1), func(tr *tree, dir string) []policy.Action {
		at := dir + "/" + entryA + "/volumes/kubernetes.io~empty-dir/wide"
		tr.mkdir(at)
		for i := range n {
			fd, err := unix.Open(fmt.Sprintf("%s/file-%x", at, uint32(i)*2654435761), unix.O_CREAT|unix.O_WRONLY, 0o644)
			tr.must(err)
			tr.must(unix.Close(fd))
		}
		tr.must(os.WriteFile(dir+"/"+entryA+".json", []byte("{}"), 0o600))
		return []policy.Action{{Kind: policy.Purge, UID: uidA, Entry: entryA, Take: contents.TakeAll}}
	})
}

// against builds the same tree twice and has each removed, by turns, and who is first
// changes. Only the removal is timed, ours with its sync; the figures are medians, since
// other work on the machine disturbs single ones.
func against(b *testing.B, rounds int, build func(tr *tree, dir string) []policy.Action) {
	b.Helper()
	var ours, theirs []float64
	for i := range b.N * rounds {
		tr := newTree(b)
		tr.mkdir(tr.quar)
		tr.must(os.Chmod(tr.quar, 0o700))
		r := tr.open(os.Getenv("BENCH_NO_OPENAT2") == "1")
		actions := build(tr, tr.quar)
		build(tr, tr.base+"/rm")
		unix.Sync()
		us := func() {
			begin := time.Now()
			for batch := range slices.Chunk(actions, policy.BatchSize) {
				for _, o := range r.Execute(context.Background(), policy.Batch{Actions: batch}) {
					if o.Result != policy.Done {
						b.Fatalf("%+v", o)
					}
				}
			}
			ours = append(ours, time.Since(begin).Seconds())
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
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours), "s")
	b.ReportMetric(median(theirs), "rm-s")
	b.ReportMetric(median(ours)/median(theirs), "ratio-to-rm")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkTakeCNI removes 100,000 result caches of 1.5 KiB, in batches of 4,096, against
// rm of the same directory. The files are read for the batch outside of the time, as the
// probe reads them before.
func BenchmarkTakeCNI(b *testing.B) {
	n := size(100_000, 8192)
	content := bytes.Repeat([]byte("x"), 1500)
	var ours, cpu, theirs []float64
	for range b.N * size(3, 1) {
		x := newCNI(b, os.Getenv("BENCH_NO_OPENAT2") == "1")
		x.mkdir(x.base + "/rm")
		files := make([]cni.Content, n)
		for i := range n {
			name := fmt.Sprintf("podnet-%064x-eth0", uint32(i)*2654435761)
			x.must(os.WriteFile(x.base+"/rm/"+name, content, 0o600))
			x.must(os.WriteFile(x.results+"/"+name, content, 0o600))
			files[i] = x.read(cni.Cache, x.results, name)
		}
		unix.Sync()
		begin, used := time.Now(), cpuTime(b)
		for batch := range slices.Chunk(files, 4096) {
			for _, o := range x.r.TakeCNI(context.Background(), batch) {
				if o.Result != policy.Done {
					b.Fatalf("%+v", o)
				}
			}
		}
		ours = append(ours, float64(time.Since(begin).Nanoseconds())/float64(n))
		cpu = append(cpu, float64(cpuTime(b)-used)/float64(n))
		begin = time.Now()
		if out, err := exec.Command("rm", "-rf", x.base+"/rm").CombinedOutput(); err != nil {
			b.Fatalf("rm: %v %s", err, out)
		}
		theirs = append(theirs, float64(time.Since(begin).Nanoseconds())/float64(n))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours), "ns/file")
	b.ReportMetric(median(cpu), "cpu-ns/file")
	b.ReportMetric(median(theirs), "rm-ns/file")
	b.ReportMetric(median(ours)/median(theirs), "ratio-to-rm")
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

// BenchmarkTakeAddresses releases the addresses of a /16, a lock and a look for each.
func BenchmarkTakeAddresses(b *testing.B) {
	n := size(65_000, 4096)
	var ours []float64
	for range b.N * size(3, 1) {
		x := newCNI(b, false)
		files := make([]cni.Content, n)
		for i := range n {
			files[i] = x.address(i, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		}
		unix.Sync()
		begin := time.Now()
		for batch := range slices.Chunk(files, 4096) {
			for _, o := range x.r.TakeCNI(context.Background(), batch) {
				if o.Result != policy.Done {
					b.Fatalf("%+v", o)
				}
			}
		}
		ours = append(ours, float64(time.Since(begin).Nanoseconds())/float64(n))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours), "ns/file")
}

// BenchmarkParkConfined parks 2,044 pods in batches of 256, each on a thread that is confined
// by Landlock and then without, by turns.
func BenchmarkParkConfined(b *testing.B) {
	const n = 2044
	took := map[bool][]float64{}
	for i := range b.N * 2 * size(15, 3) {
		confined := i%2 == 0
		tr := newTree(b)
		r := tr.open(false)
		if !confined {
			testkit.Set(r.run, "handled", uint64(0))
		} else if r.Means().Landlock.Truth != policy.Yes {
			b.Fatalf("%+v", r.Means().Landlock)
		}
		var actions []policy.Action
		for i := range n {
			uid := parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i))
			tr.pod(uid)
			actions = append(actions, tr.parkAction(uid))
		}
		unix.Sync()
		begin := time.Now()
		for batch := range slices.Chunk(actions, policy.BatchSize) {
			for _, o := range r.Execute(context.Background(), policy.Batch{Actions: batch}) {
				if o.Result != policy.Done {
					b.Fatalf("%+v", o)
				}
			}
		}
		took[confined] = append(took[confined], time.Since(begin).Seconds()*1000)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(took[true]), "ms")
	b.ReportMetric(median(took[false]), "unconfined-ms")
}

// BenchmarkConfine is what a thread and its restriction cost, for an empty batch.
func BenchmarkConfine(b *testing.B) {
	for _, confined := range []bool{true, false} {
		b.Run(fmt.Sprint(confined), func(b *testing.B) {
			r := newTree(b).open(false)
			if !confined {
				testkit.Set(r.run, "handled", uint64(0))
			}
			fd, err := beneath.HoldPath(r.root)
			if err != nil {
				b.Fatal(err)
			}
			defer beneath.Close(fd)
			for b.Loop() {
				if err := r.run.Run(b.Context(), func() {
					if err := r.run.Confine(confine.Grant{FD: fd, Rights: confine.MayMove}); err != nil {
						b.Error(err)
					}
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
