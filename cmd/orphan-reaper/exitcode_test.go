package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// arguments are those that a command wants, by its path; others want none.
var arguments = map[string][]string{
	"explain": {string(uidReap)}, "parse": {"-"}, "completion": {"bash"}, "help": {"scan"}, "fleet sweep": {"--yes"},
	"quarantine restore": {string(uidHeld)}, "quarantine purge": {string(uidHeld), "--yes"}, "quarantine forget": {string(uidReap)},
}

// runnable are all that can be run, by path.
func runnable(cmd *cobra.Command, path ...string) (all [][]string) {
	for _, c := range cmd.Commands() {
		own := append(append([]string{}, path...), c.Name())
		if c.HasSubCommands() {
			all = append(all, runnable(c, own...)...)
		} else if c.Runnable() {
			all = append(all, own)
		}
	}
	return all
}

// TestNothingIsThere: a root directory that is not there, or settings that contradict each other, are never a
// success: it would look as though nothing were there.
func TestNothingIsThere(t *testing.T) {
	all := runnable(newRootCommand(&cli{given: map[string][]string{}, env: func(string) string { return "" }}))
	if len(all) < 15 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, path := range all {
		name := strings.Join(path, " ")
		try := func(more ...string) (code int, said string) {
			code, out, said := call(t, "all", append(append(append([]string{}, path...), arguments[name]...), more...)...)
			return code, out + said
		}
		// The daemon waits for a kubelet and a disk that come late, and print shows what was set.
		if name != "run" && name != "config print" {
			if code, said := try("--root-dir", "/nope"); code == exit.DoneCode || said == "" {
				t.Errorf("%s --root-dir /nope: exit code %d: %s", name, code, said)
			}
		}
		if code, said := try("--confirm", "0s"); code != exit.UsageCode || said == "" {
			t.Errorf("%s --confirm 0s: exit code %d: %s", name, code, said)
		}
	}
	// Batches and archives are named otherwise.
	for _, args := range [][]string{
		{"restore", testArchive}, {"restore", "--batch", testArchive}, {"purge", "--yes", testArchive}, {"purge", "--yes", "--all"},
	} {
		if code, out, said := call(t, "all", append(append([]string{"quarantine"}, args...), "--root-dir", "/nope")...); code != exit.FailedCode {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, said)
		}
	}
	if code, out, _ := call(t, "", "config", "check", "--root-dir", "/nope"); code != exit.AttentionCode ||
		!strings.Contains(out, "note: cannot find the kubelet's root directory /nope") || strings.Contains(out, "starts now") {
		t.Errorf("config check: exit code %d: %s", code, out)
	}
}

// TestContradictionAlone: where nothing is to be taken now, a setting that contradicts the kubelet is told by the
// exit code all the same.
func TestContradictionAlone(t *testing.T) {
	for _, args := range [][]string{{"scan"}, {"sweep", "--dry-run"}, {"explain", string(uidAlive)}} {
		if code, _, said := call(t, "alive", args...); code != exit.DoneCode {
			t.Errorf("%q: exit code %d: %s", args, code, said)
		}
		if code, _, said := call(t, "alive-contradiction", args...); code != exit.AttentionCode {
			t.Errorf("%q with a contradiction: exit code %d: %s", args, code, said)
		}
	}
}
