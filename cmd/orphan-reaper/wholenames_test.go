package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// said runs the program and returns all that it wrote, and its exit code.
func (n *wholeNode) said(args ...string) (text string, code int) {
	n.t.Helper()
	cmd := n.command(args...)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		n.t.Fatalf("%v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestWholeLostFound: the directory that a file system has of its own is no pod's and needs nobody.
func TestWholeLostFound(t *testing.T) {
	n := newWholeNode(t)
	n.mkdir("root/pods/lost+found")
	for _, args := range [][]string{{"scan"}, {"scan", "--all"}, {"scan", "-o", "json"}, {"sweep"}, {"sweep", "--dry-run"}, {"doctor"}} {
		if text, code := n.said(args...); strings.Contains(text, "lost+found") || code != 0 && args[0] != "doctor" {
			t.Errorf("%v: %d\n%s", args, code, text)
		}
	}
	if text, code := n.said("explain", ""); code == 0 || strings.Contains(text, "a file system has such a directory") {
		t.Errorf("explain of nothing: %d\n%s", code, text)
	}
	if text, code := n.said("explain", "lost+found"); code != 1 || !strings.Contains(text, "a file system has such a directory of its own") {
		t.Errorf("explain: %d\n%s", code, text)
	}
}

// TestWholeNames: what lies among the pods and is no pod's needs a person, by the word of each command, and
// each name that scan lists can be explained.
func TestWholeNames(t *testing.T) {
	n := newWholeNode(t)
	for _, name := range []string{"backup", "my data", "deadbeef", "esc\x1b[2J"} {
		n.mkdir("root/pods/" + name)
	}
	for _, args := range [][]string{{"scan"}, {"sweep", "--dry-run"}, {"doctor"}} {
		text, code := n.said(args...)
		if code != 3 || !strings.Contains(text, "backup") {
			t.Errorf("%v: %d\n%s", args, code, text)
		}
	}
	text, _ := n.said("doctor")
	for _, want := range []string{"4 names in the pods directory are no pods'", "ls -ld " + n.path("root/pods/backup")} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor says no %q:\n%s", want, text)
		}
	}
	if text, _ := n.said("doctor", "-o", "json"); !strings.Contains(text, `"needs_person": true`) {
		t.Errorf("doctor:\n%s", text)
	}
	for _, name := range []string{"backup", "my data", `"my data"`, "deadbeef", "esc\x1b[2J", `"esc\x1b[2J"`, n.path("root/pods/backup")} {
		text, code := n.said("explain", name)
		if code != 3 || !strings.Contains(text, "invalid-uid") || !strings.Contains(text, "orphan-reaper never touches it") || strings.Contains(text, "\x1b") {
			t.Errorf("explain %s: %d\n%s", name, code, text)
		}
	}
	if text, code := n.said("explain", "nothing-here"); code != 2 || !strings.Contains(text, "is not a pod UID") {
		t.Errorf("explain of a name that is not there: %d\n%s", code, text)
	}
}
