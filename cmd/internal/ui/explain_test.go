package ui

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// TestEachCommandOnce checks that a command of two reasons is printed once, and that no command is printed for what
// was read.
func TestEachCommandOnce(t *testing.T) {
	e := policy.Evidence{Name: shortUID, UID: shortUID, Unmount: "orphan-reaper unmount " + shortUID}
	why := []policy.Why{{Reason: policy.ReasonMounted, Detail: "/v" + policy.Unmounting(e.Unmount)}, {Reason: policy.ReasonNotRunning}}
	text := printed(t, func(p *Printer) {
		explainer{Printer: p, c: Context{Place: Place{PodsDir: "/var/lib/kubelet/pods"}}}.reasons(why, &e, true)
	})
	for _, command := range []string{e.Unmount, "grep " + shortUID + " /proc/[0-9]*/mountinfo"} {
		if n := strings.Count(text, command); n != 1 {
			t.Errorf("%d occurrences of %s:\n%s", n, command, text)
		}
	}
}

const shortUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"

// TestAfter checks that the text announces the removal of a pod in use for the time after the use.
func TestAfter(t *testing.T) {
	detail := map[string]string{
		"PID 4242 (tail) has volumes/log as an open file": "PID 4242 (tail) ends",
		"a loop device has a file of it":                  "no process or loop device is found to use a file of it",
		"cannot read /proc/7/fd":                          "no process or loop device is found to use a file of it",
	}
	for text, want := range detail {
		if got := Ends([]policy.Why{{Reason: policy.ReasonYoung}, {Reason: policy.ReasonInUse, Detail: text}}); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := Ends([]policy.Why{{Reason: policy.ReasonHold, Detail: "PID 1 has it"}}); got != "" {
		t.Errorf("hold: %q", got)
	}
	sweeps := RemoverOf(policy.Node{Agrees: policy.Fact{Truth: policy.Yes}, MayEnforce: policy.Fact{Truth: policy.Yes}}, false,
		summary.Daemon{Runs: policy.No, PID: 612}, false, 0)
	if now, later := sweeps.Now("it", ""), sweeps.Later(""); now != "A sweep (PID 612) is at work." || later != now {
		t.Errorf("%q, %q", now, later)
	}
	n := policy.Node{Agrees: policy.Fact{Truth: policy.Yes}, MayEnforce: policy.Fact{Truth: policy.Yes}}
	for want, remover := range map[string]Remover{
		"It is removed when it ends.": RemoverOf(n, false, summary.Daemon{Runs: policy.Yes, Mode: "enforce"}, false, 0),
		"It can be removed when it ends. No daemon runs here. Then run: do sweep": RemoverOf(n, false, summary.Daemon{Runs: policy.No}, false, 0),
		"It can be removed when it ends. Nothing is removed: the daemon runs in mode observe.": RemoverOf(
			n, false, summary.Daemon{Runs: policy.Yes, Mode: "observe"}, false, 0),
	} {
		if got := remover.After("it ends", "do sweep"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
