package main

import (
	"os"
	"syscall"
	"testing"
	"time"
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
		cmd := n.command("run", "--log-source", "file", "--log-file", n.path("log"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n.appears("metrics.prom")
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := os.Stat(n.path("metrics.prom")); (err == nil) != c.stays {
			t.Errorf("after %v: %v", c.signal, err)
		}
	}
}

// appears waits for a file that the program is to write.
func (n *wholeNode) appears(name string) {
	n.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(n.path(name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("no file %s", name)
		}
	}
}
