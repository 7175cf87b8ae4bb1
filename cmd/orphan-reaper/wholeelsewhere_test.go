package main

import (
	"bufio"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeElsewhere: what lies in one root's quarantine is not listed as another's, whatever the ledger knows.
func TestWholeElsewhere(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	if out, code := n.run("sweep"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	n.mkdir("other/pods")
	for _, format := range []string{"text", "json"} {
		text, code := n.said("quarantine", "list", "-o", format, "--root-dir", n.path("root"))
		if code != 0 || !strings.Contains(text, wholeUID(1)) {
			t.Errorf("%d: %s", code, text)
		}
		n.args = append(n.args, "--root-dir", n.path("other"))
		text, code = n.said("quarantine", "list", "-o", format)
		n.args = n.args[:len(n.args)-2]
		if code != 1 || strings.Contains(text, wholeUID(1)) || !strings.Contains(text, "the quarantine is now "+n.path("other/orphan-reaper")) ||
			!strings.Contains(text, "the entries of the ledger lie in "+n.path("root/orphan-reaper")) || !strings.Contains(text, "hint: set --quarantine-dir") {
			t.Errorf("%d: %s", code, text)
		}
	}
}

// TestWholeNoRoot: a daemon says of a root directory that is not there what every command says.
func TestWholeNoRoot(t *testing.T) {
	t.Parallel() // it listens for seconds
	n := newWholeNode(t)
	n.args = append(n.args, "--root-dir", n.path("none"))
	cmd := n.command("run")
	said, err := cmd.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // it was told to end
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM) }()
	defer time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() }).Stop() // one that says nothing
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if text := lines.Text(); strings.Contains(text, "cannot read the node") {
			if !strings.Contains(text, "cannot find the kubelet's root directory "+n.path("none")) {
				t.Error(text)
			}
			return
		}
	}
	t.Error("the daemon said nothing of it")
}
