package removal

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	envInside = "REMOVAL_TEST_INSIDE"
	envCutOff = "REMOVAL_TEST_CUT_OFF"
	envPlugin = "REMOVAL_TEST_PLUGIN"
)

// TestMain runs the tests in a mount namespace of their own, so that whatever they mount
// goes with it: as root, or in a user namespace where the host allows one.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envPlugin) != "":
		os.Exit(pluginHelper(os.Getenv(envPlugin)))
	case os.Getenv(envCutOff) != "":
		os.Exit(cutOffHelper())
	case os.Getenv(envInside) != "":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "cannot make the mounts private:", err)
			os.Exit(1)
		}
		// The runtime's poller takes its two descriptors with the first file that can be polled;
		// the tests count descriptors.
		if r, w, err := os.Pipe(); err == nil {
			_ = r.Close()
			_ = w.Close()
		}
		os.Exit(m.Run())
	}
	// Pdeathsig is sent when the thread that forked ends.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envInside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = testkit.OwnMounts()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		if os.Getenv("REQUIRE_ROOT") == "1" {
			fmt.Fprintln(os.Stderr, "no mount namespace:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := cmd.Wait(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// long says whether the long forms are to run.
func long() bool {
	return os.Getenv("ORPHAN_REAPER_LONG") == "1" || os.Getenv("REQUIRE_ROOT") == "1"
}

// ways are the two openers, and whether Config.NoOpenat2 is set for them.
var ways = map[string]bool{"openat2": false, "mount-id": true}

// onTmpfs lets the trees of a test lie on a tmpfs, where a sync costs nothing.
func onTmpfs(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		testkit.Skip(t, "nothing can be mounted: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir)
}

// outside calls the hook on another thread than the batch's: what a test does to the node
// is done by somebody whom Landlock does not confine.
func outside(hook func(op, name string)) func(op, name string) {
	return func(op, name string) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			hook(op, name)
		}()
		<-done
	}
}
