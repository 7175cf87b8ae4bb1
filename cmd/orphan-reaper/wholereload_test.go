package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeReload: a reload changes the level of the log and of the records, and says what the daemon does now.
func TestWholeReload(t *testing.T) {
	t.Parallel() // it listens for seconds
	n := newWholeNode(t)
	n.write("config.yaml", "mode: enforce\nlog_level: error\n")
	daemon := n.start(n.command("run", "--config", n.path("config.yaml")))
	n.appears("metrics.prom") // after the first look; signals are caught before it
	n.write("config.yaml", "mode: observe\nlog_level: info\n")
	testkit.Must(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
	const again = "the configuration was read again"
	daemon.says(again)
	daemon.end()
	before, after, _ := strings.Cut(daemon.said(), again)
	line, rest, _ := strings.Cut(after, "\n")
	if strings.Contains(before, "\n") || !strings.Contains(line, "mode") || !strings.Contains(line, "log_level") ||
		!strings.Contains(line, `now="changes nothing (mode observe); `) || !strings.Contains(rest, "orphan-reaper stopped") {
		t.Error(daemon.said())
	}
}

// TestWholeNoRoot: a daemon says of a root directory that is not there what every command says.
func TestWholeNoRoot(t *testing.T) {
	t.Parallel() // it listens for seconds
	n := newWholeNode(t)
	n.args = append(n.args, "--root-dir", n.path("none"))
	daemon := n.start(n.command("run"))
	daemon.says("cannot read the node")
	daemon.says("cannot find the kubelet's root directory " + n.path("none"))
}

// TestMetricsFileAtTheEnd: figures that nobody keeps up go with a stop that somebody wanted,
// and stay after a kill: their age is then the alarm.
func TestMetricsFileAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		stays  bool
	}{{syscall.SIGTERM, false}, {syscall.SIGKILL, true}} {
		n := newWholeNode(t)
		n.write("log", "")
		daemon := n.start(n.command("run", "--log-source", "file", "--log-file", n.path("log")))
		n.appears("metrics.prom")
		testkit.Must(t, daemon.cmd.Process.Signal(c.signal))
		daemon.end()
		if _, err := os.Stat(n.path("metrics.prom")); (err == nil) != c.stays {
			t.Errorf("after %v: %v", c.signal, err)
		}
	}
}
