package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestKubeletLogs: the file that is a kubelet's standard error is found; no device, no pipe, no
// file that has gone, and no other process's.
func TestKubeletLogs(t *testing.T) {
	args := []string{"kubelet"}
	dir := procTree(t,
		fakeProc{pid: 700, parent: 1, comm: "kubelet", args: args},
		fakeProc{pid: 701, parent: 1, comm: "kubelet", args: args},
		fakeProc{pid: 702, parent: 1, comm: "containerd", args: []string{"containerd"}},
	)
	log, other := filepath.Join(t.TempDir(), "kubelet.log"), filepath.Join(t.TempDir(), "containerd.log")
	writeText(t, log, "")
	writeText(t, other, "")
	for pid, links := range map[int][2]string{700: {log, log}, 701: {"/dev/null", "/nowhere/kubelet.log (deleted)"}, 702: {other, other}} {
		fds := filepath.Join(dir, strconv.Itoa(pid), "fd")
		must(t, os.MkdirAll(fds, 0o700))
		must(t, os.Symlink(links[0], filepath.Join(fds, "2")))
		must(t, os.Symlink(links[1], filepath.Join(fds, "1")))
	}
	if got := KubeletLogs(t.Context(), dir); !slices.Equal(got, []string{log}) {
		t.Errorf("logs %q", got)
	}
	if got := KubeletLogs(t.Context(), t.TempDir()); got != nil {
		t.Errorf("without processes: %q", got)
	}
}
