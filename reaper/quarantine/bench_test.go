package quarantine

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// BenchmarkRemovePods removes 3,000 pod trees from quarantine and compares with rm -rf.
func BenchmarkRemovePods(b *testing.B) {
	n := testkit.Size(3000, 300)
	against(b, testkit.Size(3, 1), func(tr *tree, dir string) []judge.Move {
		moves := make([]judge.Move, n)
		for i := range moves {
			uid := parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i))
			entry := string(uid) + ".1"
			tr.Build(dir+"/"+entry, podTree...)
			tr.Must(os.WriteFile(dir+"/"+entry+".json", []byte("{}"), 0o600))
			moves[i] = judge.Move{Action: judge.Purge, UID: uid, Entry: entry, ID: idAt(b, dir+"/"+entry), Remove: content.All}
		}
		return moves
	})
}

// podTree is the residue of a dead pod: some 40 entries.
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

// BenchmarkRemoveWide removes one directory with 100,000 and a million files.
func BenchmarkRemoveWide(b *testing.B) {
	for _, n := range []int{testkit.Size(100_000, 10_000), testkit.Size(1_000_000, 20_000)} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { removeWide(b, n) })
	}
}

func removeWide(b *testing.B, n int) {
	b.Helper()
	against(b, testkit.Size(3, 1), func(tr *tree, dir string) []judge.Move {
		at := dir + "/" + entryA + "/volumes/kubernetes.io~empty-dir/wide"
		tr.Mkdir(at)
		for i := range n {
			fd, err := unix.Open(fmt.Sprintf("%s/file-%x", at, uint32(i)*2654435761), unix.O_CREAT|unix.O_WRONLY, 0o644)
			tr.Must(err)
			tr.Must(unix.Close(fd))
		}
		tr.Must(os.WriteFile(dir+"/"+entryA+".json", []byte("{}"), 0o600))
		return []judge.Move{{Action: judge.Purge, UID: uidA, Entry: entryA, ID: idAt(b, dir+"/"+entryA), Remove: content.All}}
	})
}

// syncFS writes what the build has left, so that neither way pays for it.
func syncFS(b *testing.B, path string) {
	b.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Syncfs(fd)
		_ = unix.Close(fd)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// against builds the same tree twice and removes each in one of the two ways, alternating which is first. Only the removal
// is timed, ours with its sync; medians are reported, since other work on the machine disturbs single rounds.
func against(b *testing.B, rounds int, build func(tr *tree, dir string) []judge.Move) {
	b.Helper()
	var ours, theirs []float64
	for i := range b.N * rounds {
		tr := newTree(b)
		tr.Must(os.Mkdir(tr.Quar, 0o700))
		q := tr.open(os.Getenv("BENCH_NO_OPENAT2") == "1")
		moves := build(tr, tr.Quar)
		build(tr, tr.Base+"/rm")
		syncFS(b, tr.Base)
		us := func() {
			begin := time.Now()
			for _, o := range run(b, q, moves...) {
				want(b, o, judge.Done)
			}
			ours = append(ours, time.Since(begin).Seconds())
		}
		rm := func() {
			begin := time.Now()
			if out, err := exec.Command("rm", "-rf", tr.Base+"/rm").CombinedOutput(); err != nil {
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
	b.ReportMetric(testkit.Median(ours), "s")
	b.ReportMetric(testkit.Median(theirs), "rm-s")
	b.ReportMetric(testkit.Median(ours)/testkit.Median(theirs), "ratio-to-rm")
}
