package source

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMain also acts as the node's journalctl if the binary was started as that: it has read the journal if a file of
// the node's root directory is in its own root directory.
func TestMain(m *testing.M) {
	if os.Args[0] != "/usr/bin/journalctl" {
		os.Exit(m.Run())
	}
	at, err := os.Getwd()
	if _, missing := os.Stat("/node"); err != nil || missing != nil || at != "/" {
		fmt.Fprintln(os.Stderr, "this is not the node:", at, missing)
		os.Exit(2)
	}
	fmt.Printf(`{"__CURSOR":"s=a;i=1;b=b;m=1;t=1;x=1","__REALTIME_TIMESTAMP":"1","_PID":"12","_COMM":"kubelet","MESSAGE":%q}`+"\n", orphan(1))
	if slices.Contains(os.Args, "--follow") {
		time.Sleep(time.Hour) // until it is killed
	}
}

// nodeWith makes a root directory whose journalctl is this test binary.
func nodeWith(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(root, "node"), nil, 0o600))
	self, err := os.ReadFile("/proc/self/exe")
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(root, "usr/bin/journalctl"), self, 0o700))
	return root
}

// namespace makes a link like /proc/self/ns/pid.
func namespace(t *testing.T, reads string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "pid")
	testkit.Must(t, os.Symlink(reads, link))
	return link
}

// TestNodesJournalctl checks that an image without journalctl starts the node's own one in the node's root directory
// and reads its output.
func TestNodesJournalctl(t *testing.T) {
	if f, err := elf.Open("/proc/self/exe"); err != nil || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("this test is built with cgo and would not start in an empty root: set CGO_ENABLED=0")
	}
	if !testkit.InNamespace(t) {
		return
	}
	root := nodeWith(t)
	ctl, err := nodesJournalctl(root, namespace(t, initialPIDNamespace))
	testkit.Must(t, err)
	if want := (Journalctl{Program: "/usr/bin/journalctl", Root: root}); ctl != want {
		t.Fatalf("found %+v, want %+v", ctl, want)
	}
	if got := ctl.Dirs(); !slices.Equal(got, []string{root + "/var/log/journal", root + "/run/log/journal"}) {
		t.Errorf("journals in %q", got)
	}
	start(t, NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Journalctl: ctl}), Position{}).sees(1)
}

// TestForeignPID1 checks that a journalctl below the root of PID 1 is not started unless PID 1 is in the host's PID
// namespace: otherwise it is a container's.
func TestForeignPID1(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	root := nodeWith(t)
	if _, err := nodesJournalctl(root, namespace(t, initialPIDNamespace)); err != nil {
		t.Fatalf("the next cases would prove nothing: %v", err)
	}
	for link, want := range map[string]string{
		namespace(t, "pid:[4026532000]"):   "PID 1 is not known to be the node's",
		namespace(t, "pid:[40265318360]"):  "PID 1 is not known to be the node's",
		filepath.Join(t.TempDir(), "none"): "it is not known whether PID 1 is the node's",
	} {
		if ctl, err := nodesJournalctl(root, link); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", link, ctl, err, want)
		}
	}
}

// TestOwnPIDNamespace checks that the calling process's own link decides.
func TestOwnPIDNamespace(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	t.Setenv("PATH", t.TempDir())
	_, err := FindJournalctl()
	link, asked := os.Readlink("/proc/self/ns/pid")
	testkit.Must(t, asked)
	if refused := err != nil && strings.Contains(err.Error(), "PID 1 is not known to be the node's"); refused != (link != "pid:[4026531836]") {
		t.Errorf("in %s: %v", link, err)
	}
}

// TestNoJournalctl checks that the error has the missing program or capability.
func TestNoJournalctl(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	for root, want := range map[string]string{
		"/":                             "a container with the host's PID namespace",
		t.TempDir():                     "neither here nor on the node",
		filepath.Join(t.TempDir(), "x"): "cannot open",
	} {
		if ctl, err := nodesJournalctl(root, namespace(t, initialPIDNamespace)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", root, ctl, err, want)
		}
	}
	root := nodeWith(t)
	if !mayChroot() {
		t.Fatal("root of a namespace may chroot: the next case would prove nothing")
	}
	without(t, unix.CAP_SYS_CHROOT, func() {
		if ctl, err := nodesJournalctl(root, namespace(t, initialPIDNamespace)); err == nil || !strings.Contains(err.Error(), "CAP_SYS_CHROOT") {
			t.Errorf("without CAP_SYS_CHROOT: %+v, %v", ctl, err)
		}
		if err := unix.Chroot(root); err == nil {
			t.Error("chroot works without CAP_SYS_CHROOT, so the guard is useless")
		}
	})
	closed := filepath.Join(t.TempDir(), "closed")
	testkit.Must(t, os.MkdirAll(filepath.Join(closed, "root"), 0o700))
	testkit.Must(t, os.Chmod(closed, 0))
	without(t, unix.CAP_DAC_OVERRIDE, func() {
		without(t, unix.CAP_DAC_READ_SEARCH, func() {
			ctl, err := nodesJournalctl(filepath.Join(closed, "root"), namespace(t, initialPIDNamespace))
			if err == nil || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
				t.Errorf("without CAP_SYS_PTRACE: %+v, %v", ctl, err)
			}
		})
	})
}

// without runs do on a thread without the capability.
func without(t *testing.T, capability int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	testkit.Must(t, unix.Capget(&head, &sets[0]))
	less := sets
	less[0].Effective &^= 1 << capability
	testkit.Must(t, unix.Capset(&head, &less[0]))
	defer func() { testkit.Must(t, unix.Capset(&head, &sets[0])) }()
	do()
}
