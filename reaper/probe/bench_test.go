package probe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// The node that the benchmarks look at: what issue 2 asks for.
const (
	benchOrphans    = 2044
	benchNamespaces = 200
	benchMounts     = 10_000
)

// benchNode makes pod directories as a node's orphans have them.
func benchNode(b *testing.B) Config {
	b.Helper()
	dir := b.TempDir()
	cfg := Config{
		RootDir: dir + "/kubelet", CgroupRoot: dir + "/cgroup", ProcDir: "/proc", LogPodsDir: dir + "/logs",
		Waive: true, RuntimeEndpoint: cri.EndpointNone, NodeNamespacesSelf: true, Clock: fixedClock{},
	}
	mkdir := func(path string) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	mkdir(cfg.LogPodsDir)
	for range 100 {
		mkdir(cfg.CgroupRoot + "/kubepods/burstable/pod" + string(newUID()) + "/c")
	}
	for i := range benchOrphans {
		pod := cfg.RootDir + "/pods/" + string(newUID())
		mkdir(pod + "/containers/app")
		mkdir(pod + "/plugins/kubernetes.io~empty-dir/wrapped_token")
		mkdir(pod + "/volumes/kubernetes.io~csi/pv/mount")
		mkdir(pod + "/volumes/kubernetes.io~projected/token")
		mkdir(pod + "/volumes/kubernetes.io~empty-dir/tmp")
		write(pod+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.1\tweb\n")
		write(pod+"/containers/app/0123abcd", "")
		write(pod+"/plugins/kubernetes.io~empty-dir/wrapped_token/ready", "")
		write(pod+"/volumes/kubernetes.io~csi/pv/vol_data.json",
			fmt.Sprintf(`{"driverName":"d","specVolID":"pv-%d","volumeHandle":"vol-%d"}`, i, i))
	}
	return cfg
}

// benchNamespacesUp starts processes in mount namespaces of their own, with that many
// mounts together. It returns what ends them, and false where it may not.
func benchNamespacesUp(b *testing.B) (stop func(), ok bool) {
	b.Helper()
	dir := b.TempDir()
	each := max(1, benchMounts/benchNamespaces-countMounts())
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for range benchNamespaces {
		cmd := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestMounter$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", mounterEnv, each, dir))
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			stop()
			return nil, false
		}
		stops = append(stops, func() { _ = in.Close(); _ = cmd.Wait() })
		if n, _ := out.Read(make([]byte, 16)); n == 0 {
			stop()
			return nil, false
		}
	}
	return stop, true
}

// mounterEnv makes a copy of the test binary mount so many file systems on a directory,
// and wait for its input to end.
const mounterEnv = "ORPHAN_REAPER_TEST_MOUNTER"

// TestMounter is what runs in each mount namespace; on its own it does nothing.
func TestMounter(t *testing.T) {
	var count int
	var dir string
	if n, _ := fmt.Sscanf(os.Getenv(mounterEnv), "%d %s", &count, &dir); n != 2 {
		return
	}
	for range count {
		must(t, unix.Mount("t", dir, "tmpfs", 0, "size=4k"))
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func countMounts() int {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	n := 0
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	return n
}

// BenchmarkLook is one look over all orphans on a node with real mount namespaces.
func BenchmarkLook(b *testing.B) {
	cfg := benchNode(b)
	stop, ok := benchNamespacesUp(b)
	if !ok {
		b.Skip("needs root for mount namespaces")
	}
	defer stop()
	p, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		look, err := p.Look(b.Context(), nil, nil)
		if err != nil || len(look.Pods) != benchOrphans {
			b.Fatalf("%d pods, %v", len(look.Pods), err)
		}
	}
}

// reportCPU adds the processor time, which other work on the machine changes less.
func reportCPU(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime)
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}

// BenchmarkParts is the same look part by part.
func BenchmarkParts(b *testing.B) {
	cfg := benchNode(b)
	stop, ok := benchNamespacesUp(b)
	if !ok {
		b.Skip("needs root for mount namespaces")
	}
	defer stop()
	p, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	l := &gathering{probe: p, rootDir: cfg.RootDir, wanted: parsers.PodSet{}}
	if l.Dirs, err = p.dirs.List(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	pods := l.choose(nil)
	all := l.readings(pods, nil)
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"list", func() {
			list, err := p.dirs.List(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			list.Close()
		}},
		{"mounts", func() { p.readMounts(b.Context(), l.wanted) }},
		{"processes", func() { p.openFiles().Read(b.Context(), l.Pods, nil, l.wanted) }},
		{"cgroups", func() { p.cgroups().Pods(b.Context()) }},
		{"kubelet", func() { p.kubelets().Find(b.Context()) }},
		{"pods", func() { p.dirs.Read(b.Context(), l.Dirs, all) }},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			defer reportCPU(b)()
			for b.Loop() {
				part.run()
			}
		})
	}
}
