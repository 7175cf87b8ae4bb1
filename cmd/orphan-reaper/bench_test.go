package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// These are the benchmarks of the whole program. make bench builds it, sets ORPHAN_REAPER_PROGRAM to its path, and
// ORPHAN_REAPER_LONG=1 for the sizes of the figures in docs/benchmarks.md. Otherwise the test binary acts as the
// program, with smaller sizes.
const (
	benchProgramEnv = "ORPHAN_REAPER_PROGRAM"
	benchPatience   = 30 * time.Second
)

// benchNode is a node with pods that live by their cgroups.
type benchNode struct {
	*wholeNode

	b    *testing.B
	next int
}

func newBenchNode(b *testing.B) *benchNode {
	b.Helper()
	n := &benchNode{wholeNode: newNode(b), b: b}
	n.write("log", "")
	for range 100 {
		uid := n.uid()
		n.write("root/pods/"+uid+"/etc-hosts", "127.0.0.1 localhost\n")
		n.mkdir("cgroup/kubepods/burstable/pod" + uid)
	}
	return n
}

func (n *benchNode) must(err error) {
	n.b.Helper()
	testkit.Must(n.b, err)
}

// uid returns a new pod UID. Like real ones, successive UIDs are not sorted.
func (n *benchNode) uid() string {
	n.next++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(n.next)*2654435761, n.next)
}

// orphan makes the residue of a dead pod without data, some 30 entries.
func (n *benchNode) orphan(dir string) {
	n.b.Helper()
	n.write(dir+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.1\tweb\n")
	n.write(dir+"/containers/app/0a1b2c3d", "")
	n.write(dir+"/containers/side/0a1b2c3e", "")
	n.write(dir+"/plugins/kubernetes.io~empty-dir/wrapped_token/ready", "")
	n.write(dir+"/volumes/kubernetes.io~csi/pvc-1/vol_data.json", `{"driverName":"d","specVolID":"pvc-1","volumeHandle":"`+dir+`"}`)
	n.mkdir(dir + "/volumes/kubernetes.io~csi/pvc-1/mount")
	for volume, keys := range map[string][]string{"projected/token": {"ca.crt", "namespace", "token"}, "configmap/conf": {"app.yaml"}} {
		at := dir + "/volumes/kubernetes.io~" + volume
		for _, key := range keys {
			n.write(at+"/..2026_11_21/"+key, strings.Repeat("x", 1000))
			n.must(os.Symlink("..data/"+key, n.path(at+"/"+key)))
		}
		n.must(os.Symlink("..2026_11_21", n.path(at+"/..data")))
	}
}

// command starts the program as a process that ends with the benchmark.
func (n *benchNode) command(args ...string) *exec.Cmd {
	n.b.Helper()
	cmd := n.wholeNode.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// BenchmarkSweep parks and removes 2,044 orphans by one sweep, from the program's start to its end, alternating with
// rm -rf of the same directories.
func BenchmarkSweep(b *testing.B) {
	orphans, rounds := testkit.Size(2044, 100), testkit.Size(5, 1)
	var ours, theirs []float64
	for i := range b.N * rounds {
		n := newBenchNode(b)
		n.args = append(n.args, "--runtime-endpoint", "none")
		for range orphans {
			uid := n.uid()
			n.orphan("root/pods/" + uid)
			n.orphan("rm/" + uid)
		}
		unix.Sync()
		us := func() {
			begin := time.Now()
			out, err := n.command("sweep").CombinedOutput()
			ours = append(ours, time.Since(begin).Seconds())
			if err != nil {
				b.Fatalf("%v\n%.2000s", err, out)
			}
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
		n.checkSwept()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(percentile(ours, 50), "s")
	b.ReportMetric(percentile(theirs, 50), "rm-s")
	b.ReportMetric(percentile(ours, 50)/percentile(theirs, 50), "ratio-to-rm")
}

// checkSwept checks that only the living pods remain.
func (n *benchNode) checkSwept() {
	n.b.Helper()
	pods, err := os.ReadDir(n.path("root/pods"))
	n.must(err)
	left, err := os.ReadDir(n.path("root/orphan-reaper"))
	n.must(err)
	if len(pods) != 100 || len(left) != 0 {
		n.b.Fatalf("%d pod directories and %d names in quarantine remain", len(pods), len(left))
	}
}

// percentile sorts x and returns its p-th percentile.
func percentile(x []float64, p int) float64 {
	slices.Sort(x)
	return x[min(len(x)*p/100, len(x)-1)]
}

// running is the daemon under test.
type running struct {
	n       *benchNode
	cmd     *exec.Cmd
	printed *bytes.Buffer
}

// start runs the daemon until the benchmark ends, and waits for its first look.
func (n *benchNode) start(args ...string) *running {
	n.b.Helper()
	r := &running{n: n, cmd: n.command(append([]string{"run"}, args...)...), printed: new(bytes.Buffer)}
	r.cmd.Stderr = r.printed
	n.must(r.cmd.Start())
	n.b.Cleanup(func() {
		_ = r.cmd.Process.Signal(unix.SIGTERM) // it may have ended before,
		_ = r.cmd.Wait()                       // so errors are ignored
		if n.b.Failed() {
			n.b.Logf("the daemon printed:\n%.4000s", r.printed.String())
		}
	})
	for end := time.Now().Add(benchPatience); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(n.path("metrics.prom"))
		if err == nil && bytes.Contains(text, []byte("orphan_reaper_last_look_timestamp_seconds")) {
			return r
		}
		if time.Now().After(end) {
			n.b.Fatalf("no first look: %v", err)
		}
	}
}

// gone watches the pods directory. The returned function waits until the name has disappeared.
func (n *benchNode) gone() (wait func(name string)) {
	n.b.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	n.must(err)
	n.b.Cleanup(func() { _ = unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, n.path("root/pods"), unix.IN_MOVED_FROM|unix.IN_DELETE)
	n.must(err)
	buf := make([]byte, 64<<10)
	return func(name string) {
		n.b.Helper()
		for end := time.Now().Add(benchPatience); ; {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			k, err := unix.Poll(poll, 1000)
			if time.Now().After(end) {
				n.b.Fatalf("%s was not parked", name)
			}
			if k == 0 || errors.Is(err, unix.EINTR) {
				continue
			}
			k, err = unix.Read(fd, buf)
			n.must(err)
			if bytes.Contains(buf[:k], []byte(name)) {
				return
			}
		}
	}
}

// BenchmarkToParked measures the time from the write of the kubelet's line until the pod's directory has left the
// pods directory, with the running daemon.
func BenchmarkToParked(b *testing.B) {
	b.Run("file", func(b *testing.B) {
		n := newBenchNode(b)
		n.start("--runtime-endpoint", "none", "--log-source", "file", "--log-file", n.path("log"))
		log, err := os.OpenFile(n.path("log"), os.O_APPEND|os.O_WRONLY, 0)
		n.must(err)
		defer closeFile(log)
		n.toParked(func(line string) {
			_, err := fmt.Fprintf(log, "Nov 21 00:37:12 node1 kubelet[21115]: %s\n", line)
			n.must(err)
		})
	})
	b.Run("journal", benchJournal)
}

// toParked makes one orphan after another, logs a line for it, and waits.
func (n *benchNode) toParked(write func(line string)) {
	n.b.Helper()
	var took []float64
	wait := n.gone()
	for range n.b.N * testkit.Size(100, 5) {
		uid := n.uid()
		n.orphan("new/" + uid)
		// The orphans come at different times after the daemon has finished the previous one.
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		n.must(os.Rename(n.path("new/"+uid), n.path("root/pods/"+uid)))
		begin := time.Now()
		write(`E1121 00:37:12.048022   21115 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` +
			uid + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1`)
		wait(uid)
		took = append(took, time.Since(begin).Seconds())
	}
	n.b.ReportMetric(0, "ns/op")
	n.b.ReportMetric(percentile(took, 50), "p50-s")
	n.b.ReportMetric(percentile(took, 99), "p99-s")
	n.b.ReportMetric(percentile(took, 100), "max-s")
}

// benchJournalEnv marks the process that runs the journal's benchmark, in a mount namespace of its own.
const (
	benchJournalEnv = "ORPHAN_REAPER_TEST_JOURNAL"
	benchUnit       = "orphan-reaper-bench.service"
)

// benchJournal starts the host's own systemd-journald on a /run of its own, like the tests of audit. A process in the
// cgroup of a unit writes the kubelet's lines through journald's stream socket: journald derives _SYSTEMD_UNIT from
// that cgroup, so the daemon's journalctl returns the entries of a kubelet's unit.
func benchJournal(b *testing.B) {
	cgroup := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(cgroup); err != nil {
		cgroup = "/sys/fs/cgroup"
	}
	if _, err := os.Stat(cgroup + "/cgroup.procs"); err != nil || os.Geteuid() != 0 {
		b.Skip("needs root and a cgroup2 file system")
	}
	if os.Getenv(benchJournalEnv) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^$", "-test.bench=^BenchmarkToParked$/^journal$", "-test.benchtime=1x")
		cmd.Env = append(os.Environ(), benchJournalEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		reportAgain(b, string(out))
		return
	}
	n := newBenchNode(b)
	n.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	n.must(unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	if cgroup != "/sys/fs/cgroup" {
		// journald searches the one hierarchy where systemd mounts it.
		n.must(unix.Mount(cgroup, "/sys/fs/cgroup", "", unix.MS_BIND, ""))
	}
	write := n.journald("/sys/fs/cgroup/" + benchUnit)
	daemon := n.start("--runtime-endpoint", "none", "--log-source", "journald", "--journal-unit", benchUnit)
	n.toParked(write)
	b.ReportMetric(childrenRSS(b, daemon.cmd.Process.Pid), "journalctl-MiB")
}

// journald starts journald, and a process in the cgroup that writes the lines to it.
func (n *benchNode) journald(cgroup string) (write func(line string)) {
	n.b.Helper()
	for _, d := range []string{"/run/systemd/journald.conf.d", "/run/systemd/journal"} {
		n.must(os.MkdirAll(d, 0o755))
	}
	// Nothing of the host is read or enabled: neither the kernel's log nor auditing.
	n.must(os.WriteFile("/run/systemd/journald.conf.d/bench.conf",
		[]byte("[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=\nRateLimitIntervalSec=0\n"), 0o644))
	start := func(attr *syscall.SysProcAttr, name string, args ...string) io.Writer {
		cmd := exec.Command(name, args...)
		attr.Pdeathsig = syscall.SIGKILL
		cmd.SysProcAttr = attr
		in, err := cmd.StdinPipe()
		n.must(err)
		n.must(cmd.Start())
		n.b.Cleanup(func() {
			_ = cmd.Process.Kill() // it needs no clean end
			_ = cmd.Wait()
		})
		return in
	}
	n.must(os.MkdirAll(cgroup, 0o755))
	n.b.Cleanup(func() {
		// The last process in the cgroup was killed a moment ago.
		for end := time.Now().Add(time.Second); unix.Rmdir(cgroup) != nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	start(&syscall.SysProcAttr{}, "/lib/systemd/systemd-journald")
	for end := time.Now().Add(benchPatience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat("/run/systemd/journal/stdout"); err == nil {
			break
		}
		if time.Now().After(end) {
			n.b.Fatal("journald does not listen")
		}
	}
	dir, err := os.Open(cgroup)
	n.must(err)
	defer closeFile(dir)
	kubelet := start(&syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}, "systemd-cat", "-t", "kubelet", "cat")
	return func(line string) {
		_, err := fmt.Fprintln(kubelet, line)
		n.must(err)
	}
}

// reportAgain reports the metrics that a benchmark in another process printed.
func reportAgain(b *testing.B, out string) {
	b.Helper()
	found := false
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				b.Fatalf("%v in %s", err, line)
			}
			b.ReportMetric(v, f[i+1])
			found = true
		}
	}
	if !found {
		b.Fatalf("nothing was measured:\n%s", out)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle measures the daemon while nothing happens, after a first look that asked a runtime with 100 pods.
func BenchmarkIdle(b *testing.B) {
	if os.Getenv(benchProgramEnv) == "" {
		b.Skip("needs the program itself in " + benchProgramEnv + ": make bench")
	}
	n := newBenchNode(b)
	s, err := fakecri.Start(b.Context(), n.path("cri.sock"), fakecri.Options{})
	n.must(err)
	defer s.Close()
	var pods []fakecri.Pod
	dirs, err := os.ReadDir(n.path("root/pods"))
	n.must(err)
	for i, d := range dirs {
		pods = append(pods, fakecri.Pod{UID: d.Name(), Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Running: 2, Exited: 1})
	}
	s.SetPods(pods...)
	d := n.start("--runtime-endpoint", s.Endpoint(), "--log-source", "file", "--log-file", n.path("log"))
	if s.Calls(fakecri.ListContainers) == 0 {
		b.Fatal("the runtime was not asked")
	}
	time.Sleep(2 * time.Second) // until the work after the first look has ended
	pid := d.cmd.Process.Pid
	minutes := float64(testkit.Size(120, 10)) / 60
	cpu := processorTime(b, pid)
	wakes, switches := wakeUps(b, pid, time.Duration(minutes*float64(time.Minute)))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(statusKB(b, pid, "VmRSS"))/1024, "RSS-MiB")
	b.ReportMetric(float64(statusKB(b, pid, "RssAnon"))/1024, "anon-MiB")
	b.ReportMetric(float64(wakes)/minutes, "wake-ups/min")
	b.ReportMetric(float64(switches)/minutes, "switches/min")
	b.ReportMetric((processorTime(b, pid)-cpu).Seconds()*1000/minutes, "cpu-ms/min")
}

// wakeUps counts how often the process woke up in that time. The kernel counts every context switch of every thread;
// switches less than a fifth of a second apart are one wake-up, since the processor sleeps no deeper in between.
func wakeUps(b *testing.B, pid int, during time.Duration) (wakes, switches int) {
	b.Helper()
	const step = 200 * time.Millisecond
	begin := contextSwitches(b, pid)
	last, awake := begin, false
	tick := time.NewTicker(step)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); <-tick.C {
		now := contextSwitches(b, pid)
		if now != last && !awake {
			wakes++
		}
		last, awake = now, now != last
	}
	return wakes, last - begin
}

func contextSwitches(b *testing.B, pid int) (sum int) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("the daemon has ended: %v", err)
	}
	for _, f := range files {
		sum += statusField(b, f, "voluntary_ctxt_switches") + statusField(b, f, "nonvoluntary_ctxt_switches")
	}
	return sum
}

func statusKB(b *testing.B, pid int, field string) int {
	b.Helper()
	return statusField(b, fmt.Sprintf("/proc/%d/status", pid), field)
}

func statusField(b *testing.B, path, field string) int {
	b.Helper()
	f, err := os.Open(path)
	testkit.Must(b, err)
	defer closeFile(f)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), field+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			testkit.Must(b, err)
			return n
		}
	}
	b.Fatalf("no %s in %s", field, path)
	return 0
}

// processorTime sums the first figure of every thread's schedstat, in nanoseconds.
func processorTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	testkit.Must(b, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		testkit.Must(b, err)
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// childrenRSS returns the memory of the daemon's children, in MiB.
func childrenRSS(b *testing.B, pid int) (sum float64) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	testkit.Must(b, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		testkit.Must(b, err)
		for child := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(child)
			testkit.Must(b, err)
			sum += float64(statusKB(b, id, "VmRSS")) / 1024
		}
	}
	return sum
}

func closeFile(f *os.File) { _ = f.Close() }
