package probe

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// size is the size of a benchmark's node.
type size struct{ orphans, living, files, namespaces, mounts int }

// usualSize is a node with as many orphans as users have reported.
var usualSize = size{orphans: 2044, namespaces: 200, mounts: 10_000}

// benchNode makes orphans' pod directories as on real nodes, and living pods with the given number of files.
func benchNode(b *testing.B, n size) Config {
	b.Helper()
	dir := b.TempDir()
	cfg := Config{
		NodeRoot: dir, RootDir: dir + "/kubelet", CgroupRoot: dir + "/cgroup", ProcDir: "/proc",
		Waive: true, RuntimeEndpoint: cri.EndpointNone, NodeNamespacesSelf: true, Clock: fixedClock{},
	}
	mkdir := func(path string) { must(b, os.MkdirAll(path, 0o755)) }
	write := func(path, text string) { must(b, os.WriteFile(path, []byte(text), 0o600)) }
	for range 100 {
		mkdir(cfg.CgroupRoot + "/kubepods/burstable/pod" + string(newUID()) + "/c")
	}
	for i := range n.orphans + n.living {
		uid := string(newUID())
		pod := cfg.RootDir + "/pods/" + uid
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
		if i >= n.orphans {
			file := pod + "/volumes/kubernetes.io~empty-dir/tmp/file"
			write(file, "")
			for f := range n.files - 1 {
				must(b, os.Link(file, fmt.Sprint(file, f)))
			}
			mkdir(cfg.CgroupRoot + "/kubepods/burstable/pod" + uid)
			write(cfg.CgroupRoot+"/kubepods/burstable/pod"+uid+"/cgroup.events", "populated 1\nfrozen 0\n")
		}
	}
	return cfg
}

// benchNamespacesUp starts processes in mount namespaces of their own with the given number of mounts in total, two
// of them in each on pod directories. It returns a function that ends them, and false without the privilege.
func benchNamespacesUp(b *testing.B, n size, cfg Config) (stop func(), ok bool) {
	b.Helper()
	dir := b.TempDir()
	must(b, os.WriteFile(dir+"/hosts", nil, 0o600))
	must(b, os.Mkdir(dir+"/tmp", 0o755))
	pods, err := os.ReadDir(cfg.RootDir + "/pods")
	must(b, err)
	each := max(2, n.mounts/n.namespaces-countMounts())
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for i := range n.namespaces {
		cmd := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestMounter$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s/pods/%s", mounterEnv, each, dir, cfg.RootDir, pods[i%len(pods)].Name()))
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		in, err := cmd.StdinPipe()
		must(b, err)
		out, err := cmd.StdoutPipe()
		must(b, err)
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

// mounterEnv makes a copy of the test binary mount that many file systems on a directory, two of them on a pod's, and
// become a program that waits for the end of its input.
const mounterEnv = "ORPHAN_REAPER_TEST_MOUNTER"

// TestMounter runs in each mount namespace; in a normal test run it does nothing.
func TestMounter(t *testing.T) {
	var count int
	var dir, pod string
	if n, _ := fmt.Sscanf(os.Getenv(mounterEnv), "%d %s %s", &count, &dir, &pod); n != 3 {
		return
	}
	must(t, unix.Mount(pod+"/etc-hosts", dir+"/hosts", "", unix.MS_BIND, ""))
	must(t, unix.Mount(pod+"/volumes/kubernetes.io~empty-dir/tmp", dir+"/tmp", "", unix.MS_BIND, ""))
	for range count - 2 {
		must(t, unix.Mount("t", dir, "tmpfs", 0, "size=4k"))
	}
	cat, err := exec.LookPath("cat")
	must(t, err)
	fmt.Println("ready")
	must(t, unix.Exec(cat, []string{cat}, nil))
}

func countMounts() int {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return bytes.Count(text, []byte{'\n'})
}

// BenchmarkLook measures one look over a node with real mount namespaces: with orphans alone, with living pods that
// have many files and are passed over, and over larger nodes.
func BenchmarkLook(b *testing.B) {
	b.Run("orphans", func(b *testing.B) { benchLook(b, usualSize) })
	living := usualSize
	living.living, living.files = 110, 10_000
	b.Run("living", func(b *testing.B) { benchLook(b, living) })
	for _, n := range []int{250, 500, 1000} {
		b.Run(fmt.Sprintf("namespaces/%d", n), func(b *testing.B) {
			benchLook(b, size{orphans: n / 2, namespaces: n, mounts: 60 * n})
		})
	}
}

func benchLook(b *testing.B, n size) {
	b.Helper()
	cfg := benchNode(b, n)
	stop, ok := benchNamespacesUp(b, n, cfg)
	if !ok {
		b.Skip("needs root for mount namespaces")
	}
	defer stop()
	p, err := New(cfg)
	must(b, err)
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		look, err := p.Look(b.Context(), nil, nil)
		if err != nil || len(look.Pods) != n.orphans+n.living {
			b.Fatalf("%d pods, %v", len(look.Pods), err)
		}
	}
}

// reportCPU reports the processor time, too, which other work on the machine changes less.
func reportCPU(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u unix.Rusage
		must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime)
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}
