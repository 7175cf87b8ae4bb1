package look

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// benchCNI makes a node with count stale cache files of 1.5 KiB, like those of Multus, and 250 living pods with a
// reservation each.
func benchCNI(b *testing.B, count int) *cniNode {
	b.Helper()
	const live = 250
	dir := b.TempDir()
	results := dir + "/cni/results"
	for _, d := range []string{results, dir + "/cni/networks/cbr0", dir + "/netns", dir + "/cgroup/kubepods", dir + "/net.d", dir + "/proc"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write(dir+"/net.d/1.conf", `{"name":"cbr0","type":"bridge","ipam":{"type":"host-local","dataDir":"`+dir+`/cni/networks"}}`)
	s, err := fakecri.Start(b.Context(), dir+"/s", fakecri.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	var sandboxes []*runtimeapi.PodSandbox
	for i := range count + live {
		id := id(strconv.Itoa(i))
		write(results+"/cbr0-"+id+"-eth0", cacheText("cbr0", id, "eth0", string(newUID()), "/run/netns/cni-"+strconv.Itoa(i)))
		if i < live {
			box := fakecri.Pod{UID: string(newUID()), Namespace: "shop", Name: "db-0"}.Sandbox()
			box.Id = id
			sandboxes = append(sandboxes, box)
			write(dir+"/netns/cni-"+strconv.Itoa(i), "")
			write(fmt.Sprintf("%s/cni/networks/cbr0/10.244.0.%d", dir, i), id+"\r\neth0")
		}
	}
	s.SetSandboxes(sandboxes...)
	return &cniNode{
		t: b, dir: dir, cri: s, cgroupRoot: dir + "/cgroup", patience: time.Minute,
		cfg: Reader{
			NodeRoot: dir, ProcDir: dir + "/proc", Now: realClock{}.Now, CacheDirs: []string{dir + "/cni"}, DataDirs: []string{dir + "/cni/networks"},
			ConfDir: dir + "/net.d", NetnsDirs: []string{dir + "/netns"}, TaskDirs: []string{dir + "/task"},
		},
	}
}

// BenchmarkSweepCNI reads and judges everything, chunk by chunk, and reports the process's peak resident memory.
func BenchmarkSweepCNI(b *testing.B) {
	for _, count := range []int{2000, 100_000, 300_000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			if count > 100_000 && os.Getenv("ORPHAN_REAPER_LONG") == "" {
				b.Skip("set ORPHAN_REAPER_LONG=1 for 300,000 files")
			}
			n := benchCNI(b, count)
			resetPeak(b)
			for b.Loop() {
				s := n.begin()
				dead := 0
				for look, ok := s.Next(b.Context()); ok; look, ok = s.Next(b.Context()) {
					for _, f := range look.Files {
						if f.Facts[cni.Netns].Truth == policy.No && f.Facts[cni.Foreign].Truth == policy.No {
							dead++
						}
					}
				}
				s.Close()
				if dead != count {
					b.Fatalf("%d of %d are gone", dead, count)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/file")
			b.ReportMetric(float64(peak(b)), "MiB-peak")
		})
	}
}

// BenchmarkScriptCNI measures StarlingX's script for the same task, which starts processes for each file.
func BenchmarkScriptCNI(b *testing.B) {
	const count = 500
	n := benchCNI(b, count)
	results := filepath.Join(n.cfg.CacheDirs[0], "results")
	entries, err := os.ReadDir(results)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, e := range entries {
			script := `f=$1; id=$(echo "$f" | sed -nE 's/^.*-([0-9a-zA-Z]{64})-[0-9a-zA-Z]+$/\1/p'); echo "$2" | grep -q "$id"; stat -c %Z "$f"; date +%s`
			if err := exec.CommandContext(b.Context(), "/bin/sh", "-c", script, "sh", results+"/"+e.Name(), "").Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/file")
}

// resetPeak resets the kernel's record of the peak resident memory (proc(5), clear_refs).
func resetPeak(b *testing.B) {
	b.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), fs.FileMode(0)); err != nil {
		b.Log(err)
	}
}

func peak(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	kib := 0
	_, _ = fmt.Sscan(string(rest), &kib)
	return kib >> 10
}
