package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envInside marks the process that Main has started, envAlone that of Alone.
const (
	envInside = "ORPHAN_REAPER_TEST_INSIDE"
	envAlone  = "ORPHAN_REAPER_TEST_ALONE"
)

// Main runs the tests of a package in their own mount namespace, which ends with everything that they mount: as root, or in a
// user namespace if the host allows one. It is for TestMain, and does not return.
func Main(m *testing.M) {
	if os.Getenv(envInside) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "cannot make the mounts private:", err)
			os.Exit(1)
		}
		// The runtime opens its poller, two descriptors, with the first file that can be polled; the tests count descriptors.
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
	cmd.SysProcAttr = ownMounts()
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

// Alone runs the tests of a package in their own PID and mount namespaces: they see no process of this machine, and their
// mounts end with them. Another user than root stays that user. It is for TestMain. It returns in those namespaces, or if
// this user may create none.
func Alone() {
	namespaces := "--mount --pid --fork --kill-child --mount-proc"
	if os.Getenv(envAlone) != "" {
		return
	}
	if user := os.Geteuid(); user != 0 {
		namespaces += fmt.Sprintf(" --user --map-user=%d --map-group=%d", user, os.Getegid())
	}
	unshare := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append(strings.Fields(namespaces), args...)...)
	}
	if err := unshare("true").Run(); err != nil { // a test that needs them skips itself
		return
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot find the tests:", err)
		os.Exit(1)
	}
	// Pdeathsig is sent when the thread that forked ends.
	runtime.LockOSThread()
	// A shell is PID 1 there: it reaps the tests' orphans, and signals to the tests have their usual effect.
	cmd := unshare(append([]string{"sh", "-c", `"$0" "$@"; exit $?`, self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), envAlone+"=1")
	// These writers make os/exec use pipes: a file would be open on a mount that the namespace does not have.
	cmd.Stdout, cmd.Stderr = struct{ io.Writer }{os.Stdout}, struct{ io.Writer }{os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// Long reports whether the long forms of tests run, as make nightly sets it.
func Long() bool { return os.Getenv("ORPHAN_REAPER_LONG") == "1" }

// Size returns long with ORPHAN_REAPER_LONG, as make bench sets it for docs/measured.md, else short.
func Size(long, short int) int {
	if os.Getenv("ORPHAN_REAPER_LONG") != "" {
		return long
	}
	return short
}

// Median sorts x and returns its median.
func Median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// Ways are the two ways of package beneath to open a name, with the argument of beneath.New.
var Ways = map[string]bool{"openat2": false, "mount-id": true}

// OnTmpfs puts the temporary directories of a test on a tmpfs, where a sync costs nothing.
func OnTmpfs(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	Mount(t, "tmpfs", dir, "tmpfs", 0, "")
	t.Setenv("TMPDIR", dir)
}

// Outside calls the hook on another thread than the batch's, which Landlock confines.
func Outside(hook func(op, name string)) func(op, name string) {
	return func(op, name string) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			hook(op, name)
		}()
		<-done
	}
}

// KillBefore returns a hook that kills this process with SIGKILL before its n-th change. It is safe for concurrent use.
func KillBefore(n int) func(op, name string) {
	var seen atomic.Int64
	return Outside(func(string, string) {
		if seen.Add(1) == int64(n) {
			_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
			select {}
		}
	})
}

// Dies runs this test binary with the job in the variable env, and reports whether a signal ended it. If after is not 0, it
// kills the process after that time.
func Dies(t *testing.T, env string, job any, after time.Duration) bool {
	t.Helper()
	b, err := json.Marshal(job)
	Must(t, err)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), env+"="+string(b))
	Must(t, cmd.Start())
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code > 0 {
		t.Fatalf("helper: exit %d", code)
	}
	return err != nil
}

// Elsewhere is a directory beside the kubelet's, with a file "f", an empty directory "d", and two handles of it.
type Elsewhere struct {
	Dir            string
	DirFD, WriteFD int
}

// Elsewhere makes an Elsewhere.
func (tr *Tree) Elsewhere(name string) *Elsewhere {
	tr.T.Helper()
	x := &Elsewhere{Dir: tr.Base + "/" + name}
	tr.Mkdir(x.Dir + "/d")
	tr.Must(os.WriteFile(x.Dir+"/f", []byte("precious"), 0o600))
	var err error
	x.DirFD, err = unix.Open(x.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	tr.Must(err)
	x.WriteFD, err = unix.Open(x.Dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	tr.Must(err)
	return x
}

// Close closes the handles.
func (x *Elsewhere) Close() {
	_ = unix.Close(x.DirFD)
	_ = unix.Close(x.WriteFD)
}

// Changed describes a change of the directory, "" if there is none.
func (x *Elsewhere) Changed() string {
	b, err := os.ReadFile(x.Dir + "/f")
	if err != nil || string(b) != "precious" {
		return fmt.Sprintf("f: %q, %v", b, err)
	}
	entries, err := os.ReadDir(x.Dir)
	if err != nil || len(entries) != 2 {
		return fmt.Sprintf("%v, %v", entries, err)
	}
	return ""
}
