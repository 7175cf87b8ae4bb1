// Package testkit has what the tests of several packages share: a mount namespace for the tests, a kubelet's root with
// canaries, made /proc trees and servers, and Skip, the only way to skip a test. Only tests import it.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

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

// Skip skips a test that this machine cannot run. With REQUIRE_ROOT=1 it fails the test. The arguments are those of
// fmt.Sprint.
func Skip(tb testing.TB, why ...any) {
	tb.Helper()
	if os.Getenv("REQUIRE_ROOT") == "1" {
		tb.Fatal("REQUIRE_ROOT=1, but " + fmt.Sprint(why...))
	}
	tb.Skip(fmt.Sprint(why...)) // tb.Skip would put spaces between them
}

// NeedRoot skips the test unless it runs as root.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Skip(tb, "this needs root")
	}
}

// NeedUsers skips the test unless it runs as root and sees more than one user.
func NeedUsers(tb testing.TB) {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/uid_map")
	Must(tb, err)
	if users := strings.Fields(string(text)); os.Geteuid() != 0 || len(users) < 3 || users[2] == "1" {
		Skip(tb, "this needs root, and other users")
	}
}

// NeedProcesses skips the test unless Alone has given it a PID namespace. It reads all processes, and one that the test
// did not start, which may be another user's, changes its result.
func NeedProcesses(tb testing.TB) {
	tb.Helper()
	if os.Getenv(envAlone) == "" {
		Skip(tb, "this needs a PID namespace of its own")
	}
}

// NeedCommand returns the path of a command, and skips the test without it.
func NeedCommand(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(tb, "this needs ", name)
	}
	return path
}

// InNamespace runs the test again in a process with its own mount namespace, and without root in a user namespace. It returns
// true in that process. Elsewhere it returns false, and the test must return.
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
		t.Skip(skipReason(text))
	case err != nil || !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Fatalf("in its mount namespace: %v\n%s", err, text)
	}
	return false
}

// skipReason returns the last line that a test printed before it was skipped.
func skipReason(text string) string {
	before, _, _ := strings.Cut(text, "--- SKIP: ")
	lines := strings.Split(strings.TrimSpace(before), "\n")
	last := lines[len(lines)-1]
	if _, why, ok := strings.Cut(last, "_test.go:"); ok {
		_, last, _ = strings.Cut(why, ": ")
	}
	return last
}

// ownMounts starts a command in its own mount namespace, and without root in its own user namespace.
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

// HungFUSE mounts a FUSE file system whose server never answers, so every access hangs until it is ended.
func HungFUSE(tb testing.TB, at string) (end func()) {
	tb.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		Skip(tb, "no /dev/fuse: ", err)
	}
	end = sync.OnceFunc(func() { _ = unix.Close(fd) })
	tb.Cleanup(end)
	Mount(tb, "hung", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	return end
}

// Loop attaches a loop device to a file until the test ends. A container or a user namespace may have none.
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

// Set sets an unexported field of the struct at ptr. With it a test removes a guard, to show what is lost without it.
func Set[T any](ptr any, field string, value T) {
	*fieldOf[T](ptr, field) = value
}

// fieldOf panics if the field has another type.
func fieldOf[T any](ptr any, field string) *T {
	f := reflect.ValueOf(ptr).Elem().FieldByName(field)
	if want := reflect.TypeFor[T](); f.Type() != want {
		panic(fmt.Sprintf("%s is a %s, not a %s", field, f.Type(), want))
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}
