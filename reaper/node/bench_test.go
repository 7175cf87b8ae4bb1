package node

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// orphans makes that many pod directories, as users have reported them.
func (n *testNode) orphans(count int) {
	n.t.Helper()
	for i := range count {
		at := "kubelet/pods/" + string(n.pod()) + "/volumes/"
		n.mkdir(at+"kubernetes.io~projected/token", at+csiPlugin+"/pv/mount")
		n.write(at+csiPlugin+"/pv/vol_data.json", fmt.Sprintf(`{"driverName":"d","specVolID":"pv-%d","volumeHandle":"vol-%d"}`, i, i))
	}
}

// namespaces starts processes, each in a mount namespace of its own with that many mounts more.
func namespaces(tb testing.TB, count, mounts int) {
	tb.Helper()
	dir := tb.TempDir()
	for range count {
		cmd := exec.Command("sh", "-ec", strings.Repeat("mount -t tmpfs -o size=4k t "+dir+"\n", mounts)+"echo ready; exec cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		started(tb, cmd)
	}
}

// BenchmarkScan measures a scan of 2,044 directories beside 200 mount namespaces with 10,000 mounts.
func BenchmarkScan(b *testing.B) {
	testkit.NeedProcesses(b)
	testkit.NeedRoot(b)
	n := newNode(b)
	n.orphans(2044)
	n.runtime(fakecri.Options{}, n.living())
	namespaces(b, 200, 25)
	s := n.scanner()
	b.ReportAllocs()
	var before, after unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
	for b.Loop() {
		if found := s.Scan(b.Context(), nil, nil); len(found.Pods) != 2045 {
			b.Fatalf("%d pods", len(found.Pods))
		}
	}
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
	cpu := func(u unix.Rusage) int64 { return unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime) }
	b.ReportMetric(float64(cpu(after)-cpu(before))/float64(b.N)/1e6, "cpu-ms/op")
}
