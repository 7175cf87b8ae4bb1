package main

import (
	"os/exec"
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

// needCapability wants one of capabilities(7).
func needCapability(t *testing.T, name string, capability int) {
	t.Helper()
	testkit.NeedRoot(t)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	if data[capability/32].Effective&(1<<(capability%32)) == 0 {
		testkit.Skip(t, "this needs ", name)
	}
}
