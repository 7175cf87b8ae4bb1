package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func bootTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestFindKubeletRealProcess finds a real process of that name in the real /proc.
func TestFindKubeletRealProcess(t *testing.T) {
	dir := t.TempDir()
	root, path := filepath.Join(dir, "root"), filepath.Join(dir, "kubelet")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	if fact, _ := findIn(t, "/proc", root); fact.Truth != policy.No {
		t.Fatalf("before: %+v", fact)
	}
	before := bootTime(t)
	cmd := testkit.StartProcess(t, "idle", path, "/usr/bin/kubelet", "--v=2", "--root-dir", root)
	after := bootTime(t)

	fact, id := findIn(t, "/proc", root)
	if fact.Truth != policy.Yes || id.PID != cmd.Process.Pid {
		t.Errorf("%+v, %+v; want PID %d", fact, id, cmd.Process.Pid)
	}
	const tick = 10 * time.Millisecond // the kernel rounds down
	if id.Start < before-tick || id.Start > after {
		t.Errorf("started at %s, want from %s to %s", id.Start, before, after)
	}
	if fact, _ := findIn(t, "/proc", dir); fact.Truth != policy.No {
		t.Errorf("another root: %+v", fact)
	}
	if err := CheckWaived(t.Context(), "/proc", root, nil); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("waived beside a kubelet: %v", err)
	}

	// A zombie keeps its name and has no command line.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForZombie(t, cmd.Process.Pid)
	if fact, _ := findIn(t, "/proc", root); fact.Truth != policy.No {
		t.Errorf("a zombie: %+v", fact)
	}
}
