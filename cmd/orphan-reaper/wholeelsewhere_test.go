package main

import (
	"bufio"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

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
