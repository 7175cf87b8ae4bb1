package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

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
