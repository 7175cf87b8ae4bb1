package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestSameQuarantine: with another root directory the ledger does not forget what lies in quarantine.
func TestSameQuarantine(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.mkdir("other/pods")
	n.run("sweep")
	elsewhere := slices.Clone(n.args)
	elsewhere[slices.Index(elsewhere, n.path("root"))] = n.path("other")
	here := n.args
	for _, command := range [][]string{{"sweep", "--no-wait"}, {"quarantine", "restore", wholeUID(1)}, {"run", "--log-source", "file", "--log-file", n.path("log")}} {
		n.args = elsewhere
		cmd := n.command(command...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), n.path("root/orphan-reaper")) {
			t.Errorf("%s: %v, %s", command, err, said.String())
		}
	}
	n.args = here
	if out, _ := n.run("quarantine", "list", "-o", "json"); !strings.Contains(out, `"held"`) {
		t.Errorf("the ledger has forgotten what lies there: %s", out)
	}
	if _, code := n.run("quarantine", "restore", wholeUID(1)); code != 0 {
		t.Errorf("restore: exit code %d", code)
	}
	n.args = elsewhere
	if out, code := n.run("sweep", "--no-wait", "-o", "json"); code == 1 {
		t.Errorf("with nothing in quarantine: exit code %d, %s", code, out)
	}
}
