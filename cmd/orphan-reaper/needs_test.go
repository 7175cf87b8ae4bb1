package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// needs skips a test that this machine cannot run, which with REQUIRE_ROOT=1 is a failure.
// What a machine has is found by trying: root in a container has not all that root has.
func needs(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_ROOT") == "1" {
		t.Fatalf("REQUIRE_ROOT=1, and this needs %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

var errNotHere = errors.New("not here")

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		needs(t, "root", errNotHere)
	}
}

// needNamespaces wants mount and PID namespaces in which can be mounted.
func needNamespaces(t *testing.T) {
	t.Helper()
	needRoot(t)
	out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %q", err, out)
	}
	needs(t, "mount and PID namespaces", err)
}

// needCapability wants one of capabilities(7).
func needCapability(t *testing.T, name string, capability int) {
	t.Helper()
	needRoot(t)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	if data[capability/32].Effective&(1<<(capability%32)) == 0 {
		needs(t, name, errNotHere)
	}
}
