package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// needNamespaces wants mount and PID namespaces in which can be mounted.
func needNamespaces(t *testing.T) {
	t.Helper()
	testkit.NeedRoot(t)
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		testkit.Skip(t, "this needs mount and PID namespaces: ", err, ": ", string(out))
	}
}

// TestNoHost: the tests run where they see no process of this machine, and no kubelet of it.
func TestNoHost(t *testing.T) {
	needNamespaces(t)
	if os.Getppid() != 1 {
		t.Errorf("these tests are a child of process %d", os.Getppid())
	}
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil || !bytes.Contains(first, []byte(filepath.Base(os.Args[0]))) {
		t.Errorf("the first process is %q, %v", first, err)
	}
}

// needCapability wants one of capabilities(7).
func needCapability(t *testing.T, name string, capability int) {
	t.Helper()
	testkit.NeedRoot(t)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	testkit.Must(t, unix.Capget(&hdr, &data[0]))
	if data[capability/32].Effective&(1<<(capability%32)) == 0 {
		testkit.Skip(t, "this needs ", name)
	}
}
