package main

import (
	"io"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeSameCommandAgain: the same restore or purge again ends well and says that it is
// done. A pod that was never there, or of which the opposite was done, is still an error.
func TestWholeSameCommandAgain(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.pod(2, true)
	n.pod(3, false)
	if out, code := n.run("sweep"); code > 1 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for _, c := range []struct {
		args  []string
		first int
		again string
	}{
		{[]string{"quarantine", "restore", wholeUID(1)}, 0, "put back already, at "},
		{[]string{"quarantine", "restore", wholeUID(1)[:13]}, 0, "put back already, at "}, // of no pod in quarantine any more
		{[]string{"quarantine", "purge", "--yes", wholeUID(2)}, 0, "removed already, at "},
		{[]string{"quarantine", "purge", "--yes", wholeUID(3)}, 0, "removed already, at "},
		{[]string{"quarantine", "restore", wholeUID(2)}, 1, ""},
		{[]string{"quarantine", "purge", "--yes", wholeUID(1)}, 1, ""},
		{[]string{"quarantine", "restore", wholeUID(9)}, 1, ""},
	} {
		for range 2 {
			if out, code := n.run(c.args...); code != c.first {
				t.Errorf("%v: exit %d: %s", c.args, code, out)
			}
		}
		if out, _ := n.run(c.args...); !strings.Contains(out, c.again) {
			t.Errorf("%v, again: %s", c.args, out)
		}
	}
}

// TestSaidOnce: where records go to a terminal, those that the command's own line tells again are left out, unless
// somebody asked for all. Into a file all of them go.
func TestSaidOnce(t *testing.T) {
	_, tty := testkit.Terminal(t, 80)
	for _, c := range []struct {
		name string
		a    cli
		want string
	}{
		{"a terminal", cli{tells: true, stderr: tty}, "warn"},
		{"a command that says nothing itself", cli{stderr: tty}, "info"},
		{"verbose", cli{tells: true, verbose: true, stderr: tty}, "info"},
		{"asked for", cli{tells: true, stderr: tty, given: map[string][]string{"log-level": {"info"}}}, "info"},
		{"quiet", cli{tells: true, quiet: true, stderr: tty}, "error"},
		{"a file", cli{tells: true, stderr: io.Discard}, "info"},
	} {
		c.a.env = noEnv
		if c.a.given == nil {
			c.a.given = map[string][]string{}
		}
		c.a.given["node-root"], c.a.given["node-namespaces"] = []string{t.TempDir()}, []string{"self"}
		if cfg, err := c.a.config(t.Context()); err != nil || cfg.LogLevel != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, cfg.LogLevel, err, c.want)
		}
	}
	a := &cli{env: noEnv, given: map[string][]string{}}
	for command, want := range map[string]bool{"quarantine restore": true, "quarantine purge": true, "sweep": false} {
		cmd, _, err := newRootCommand(a).Find(strings.Fields(command))
		testkit.Must(t, err)
		cmd.SetContext(t.Context())
		testkit.Must(t, a.before(cmd))
		a.stopSignals()
		if a.tells != want {
			t.Errorf("%s tells what its records do: %t", command, a.tells)
		}
	}
}
