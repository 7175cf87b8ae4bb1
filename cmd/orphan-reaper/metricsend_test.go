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
		deadline := time.Now().Add(30 * time.Second)
		for {
			if _, err := os.Stat(n.path("metrics.prom")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("no metrics file")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := os.Stat(n.path("metrics.prom")); (err == nil) != c.stays {
			t.Errorf("after %v: %v", c.signal, err)
		}
	}
}
