package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestKubeletLogs: the file that is a kubelet's standard error is found; no device, no pipe, no
// file that has gone, and no other process's.
func TestKubeletLogs(t *testing.T) {
	args := []string{"kubelet"}
	dir := testkit.ProcTree(t,
		testkit.FakeProc{PID: 700, Parent: 1, Comm: "kubelet", Args: args},
		testkit.FakeProc{PID: 701, Parent: 1, Comm: "kubelet", Args: args},
		testkit.FakeProc{PID: 702, Parent: 1, Comm: "containerd", Args: []string{"containerd"}},
	)
	log, other := filepath.Join(t.TempDir(), "kubelet.log"), filepath.Join(t.TempDir(), "containerd.log")
	testkit.WriteText(t, log, "")
	testkit.WriteText(t, other, "")
	for pid, links := range map[int][2]string{700: {log, log}, 701: {"/dev/null", "/nowhere/kubelet.log (deleted)"}, 702: {other, other}} {
		fds := filepath.Join(dir, strconv.Itoa(pid), "fd")
		testkit.Must(t, os.MkdirAll(fds, 0o700))
		testkit.Must(t, os.Symlink(links[0], filepath.Join(fds, "2")))
		testkit.Must(t, os.Symlink(links[1], filepath.Join(fds, "1")))
	}
	if got := Logs(t.Context(), dir); !slices.Equal(got, []string{log}) {
		t.Errorf("logs %q", got)
	}
	if got := Logs(t.Context(), t.TempDir()); got != nil {
		t.Errorf("without processes: %q", got)
	}
}
