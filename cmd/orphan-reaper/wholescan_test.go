package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeScanNamed: who names a pod is shown that one, whatever else is parked, and its exit code is that one's.
func TestWholeScanNamed(t *testing.T) {
	t.Parallel()
	n := newWholeNode(t)
	n.pod(1, false)
	n.pod(2, false)
	n.args[slices.Index(n.args, "--confirm")+1] = "1h"
	if said, code := n.said("sweep", "--no-wait", wholeUID(1)); code != 0 {
		t.Fatalf("sweep: %d, %s", code, said)
	}
	for _, args := range [][]string{{"scan"}, {"scan", "-o", "json"}, {"sweep", "--dry-run"}} {
		whole, _ := n.run(args...)
		if named, code := n.run(append(args, wholeUID(2))...); code != 0 || !strings.Contains(named, wholeUID(2)) ||
			strings.Contains(withoutQuarantine(named), wholeUID(1)) || !strings.Contains(whole, wholeUID(1)) {
			t.Errorf("%v: code %d\n%s\nand of all\n%s", args, code, named, whole)
		}
	}
}

// withoutQuarantine leaves out of JSON what lies in quarantine, which has all.
func withoutQuarantine(text string) string {
	before, _, _ := strings.Cut(text, "\n  \"quarantine\": ")
	return before
}

// TestWholeExplainUsed: a pod that a process uses is said to go when that process ends, and not to take a sweep now.
func TestWholeExplainUsed(t *testing.T) {
	t.Parallel()
	n := newWholeNode(t)
	n.pod(1, false)
	f, err := os.Open(n.path("root/pods/" + wholeUID(1) + "/etc-hosts"))
	testkit.Must(t, err)
	defer func() { _ = f.Close() }() // nothing was written
	ends := fmt.Sprintf("It can be removed when PID %d (", os.Getpid())
	for _, args := range [][]string{{"explain"}, {"scan"}} {
		out, code := n.run(append(args, wholeUID(1))...)
		if words := strings.Join(strings.Fields(strings.ReplaceAll(out, "\n#", "\n")), " "); code != 0 || !strings.Contains(words, ends) ||
			strings.Contains(words, "waits out") {
			t.Errorf("%v: code %d, want %q\n%s", args, code, ends, out)
		}
	}
	out, _ := n.run("doctor")
	if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, "can be removed when PID") || strings.Contains(words, "can be removed now") {
		t.Errorf("doctor:\n%s", out)
	}
}

// TestWholeExplainFile: of a name that is a pod's and no directory nothing is said that happens to pods.
func TestWholeExplainFile(t *testing.T) {
	t.Parallel()
	n := newWholeNode(t)
	n.write("root/pods/"+wholeUID(1), "no directory\n")
	out, code := n.run("explain", wholeUID(1))
	if code != 3 || !strings.Contains(out, "not-a-directory") || !strings.Contains(out, "What was looked at") ||
		strings.Contains(out, "How to undo") || strings.Contains(out, "quarantine restore") || strings.Contains(out, "until a person purges") {
		t.Errorf("code %d\n%s", code, out)
	}
}
