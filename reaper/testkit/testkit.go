// Package testkit has what the tests of several rooms need: a mount namespace of their own, a
// tree with canaries, the one way to skip, a pod that is dead in every respect. Only tests
// import it.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/sys/unix"
)

// envNamespace names the test that runs in its own mount namespace.
const envNamespace = "ORPHAN_REAPER_TEST_NAMESPACE"

// Must ends the test where there is an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Skip skips what this machine cannot run. A skip is a claim: with REQUIRE_ROOT=1 it is a
// failure. The arguments are those of fmt.Sprint.
func Skip(tb testing.TB, why ...any) {
	tb.Helper()
	if os.Getenv("REQUIRE_ROOT") == "1" {
		tb.Fatal("REQUIRE_ROOT=1, but " + fmt.Sprint(why...))
	}
	tb.Skip(fmt.Sprint(why...)) // Skip itself would put spaces between them
}

// NeedRoot skips where the test does not run as root.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Skip(tb, "this needs root")
	}
}

// NeedUsers skips where the test does not run as root, or in a user namespace of one user.
func NeedUsers(tb testing.TB) {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/uid_map")
	Must(tb, err)
	if users := strings.Fields(string(text)); os.Geteuid() != 0 || len(users) < 3 || users[2] == "1" {
		Skip(tb, "this needs root, and other users")
	}
}

// NeedProcesses skips where not every process shows what it has open: with one that does not, no
// file is known to be unused. A test that runs as nobody on purpose does not ask.
func NeedProcesses(tb testing.TB) {
	tb.Helper()
	if _, err := os.Readlink("/proc/1/cwd"); errors.Is(err, os.ErrPermission) {
		Skip(tb, "this needs root, or a PID namespace of its own")
	}
}

// NeedListing skips where listmount(2) does not list a mount namespace by its file: an older kernel, a seccomp filter.
func NeedListing(tb testing.TB) {
	tb.Helper()
	ns, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	Must(tb, err)
	defer func() { _ = unix.Close(ns) }()
	// struct mnt_id_req in its first size, and LSMT_ROOT.
	req := struct {
		size, ns  uint32
		id, param uint64
	}{24, uint32(ns), 1<<64 - 1, 0}
	var ids [1]uint64
	_, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&req)), uintptr(unsafe.Pointer(&ids)), 1, 0, 0, 0)
	if errno != 0 {
		Skip(tb, "this needs listmount(2) of Linux 6.13: ", errno)
	}
}

// NeedCommand returns the path of a command that make test installs.
func NeedCommand(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(tb, "this needs ", name)
	}
	return path
}

// InNamespace runs the test again in a mount namespace of its own, and a user namespace
// where it is not root. It returns true in the process that is to do the test's work, where
// whatever is mounted ends with it. Elsewhere the test is to return.
func InNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envNamespace) == t.Name() {
		Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envNamespace+"="+t.Name())
	cmd.SysProcAttr = ownMounts()
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		Skip(t, "there is no mount namespace here: ", err)
	}
	switch text := string(out); {
	case err == nil && strings.Contains(text, "--- SKIP: "+t.Name()+" ("):
		t.Skip(reason(text))
	case err != nil || !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Fatalf("in its mount namespace: %v\n%s", err, text)
	}
	return false
}

// reason is the last that a test printed before it was skipped.
func reason(text string) string {
	before, _, _ := strings.Cut(text, "--- SKIP: ")
	lines := strings.Split(strings.TrimSpace(before), "\n")
	last := lines[len(lines)-1]
	if _, why, ok := strings.Cut(last, "_test.go:"); ok {
		_, last, _ = strings.Cut(why, ": ")
	}
	return last
}

// Golden compares a text with a file, and writes that again where UPDATE_GOLDEN is set.
func Golden(tb testing.TB, path, got string) {
	tb.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Must(tb, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	Must(tb, err)
	if d := diff.Diff(path, want, "now", []byte(got)); d != nil {
		tb.Errorf("UPDATE_GOLDEN=1 go test writes this file anew:\n%s", d)
	}
}

// ownMounts has a command start in a mount namespace of its own, and in a user namespace
// where the test does not run as root.
func ownMounts() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// Mount mounts as mount(2) does, until the test ends.
func Mount(tb testing.TB, source, target, fstype string, flags uintptr, data string) {
	tb.Helper()
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		Skip(tb, "nothing can be mounted: ", err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			tb.Error(err)
		}
	})
}

// Loop makes a loop device of a file, until the test ends. A container or a user namespace may have
// none.
func Loop(tb testing.TB, file string) (device string) {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), NeedCommand(tb, "losetup"), "-f", "--show", file).CombinedOutput()
	if err != nil {
		Skip(tb, "there are no loop devices: ", strings.TrimSpace(string(out)))
	}
	device = strings.TrimSpace(string(out))
	tb.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	return device
}

// Set changes a field of what ptr points to that its package keeps for itself: a guard that
// only a test may take away, to show what is lost without it.
func Set[T any](ptr any, field string, value T) {
	*fieldOf[T](ptr, field) = value
}

// Get reads such a field.
func Get[T any](ptr any, field string) T {
	return *fieldOf[T](ptr, field)
}

// fieldOf panics where the field is of another type: a value of the wrong one would be anything.
func fieldOf[T any](ptr any, field string) *T {
	f := reflect.ValueOf(ptr).Elem().FieldByName(field)
	if want := reflect.TypeFor[T](); f.Type() != want {
		panic(fmt.Sprintf("%s is a %s, not a %s", field, f.Type(), want))
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}
