package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeReload: a reload changes the level of the log and of the records, and says what the daemon does now.
func TestWholeReload(t *testing.T) {
	t.Parallel() // it listens for seconds
	n := newWholeNode(t)
	n.write("config.yaml", "mode: enforce\nlog_level: error\n")
	cmd := n.command("run", "--config", n.path("config.yaml"))
	said, err := cmd.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // it was told to end
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM) }()
	// The first look is over when these are there, and signals are heard before it.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(n.path("metrics.prom")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no look")
		}
	}
	n.write("config.yaml", "mode: observe\nlog_level: info\n")
	testkit.Must(t, cmd.Process.Signal(syscall.SIGHUP))
	defer time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() }).Stop() // one that says nothing
	told := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.Contains(text, "the configuration was read again"):
			told = true
			if !strings.Contains(text, "mode") || !strings.Contains(text, "log_level") || !strings.Contains(text, `now="changes nothing (mode observe); `) {
				t.Error(text)
			}
			testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		case !told:
			t.Errorf("at level error: %s", text)
		case strings.Contains(text, "orphan-reaper stopped"):
			return
		}
	}
	t.Errorf("the reload was told: %t; and no record after it", told)
}
