package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// arguments are those that a command wants, by its path; others want none.
var arguments = map[string][]string{
	"explain": {testUID}, "parse": {"-"}, "completion": {"bash"}, "help": {"scan"}, "fleet sweep": {"--yes"},
	"quarantine restore": {testUID}, "quarantine purge": {testUID, "--yes"}, "quarantine forget": {testUID},
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
	all := runnable(newRootCommand(&cli{given: map[string][]string{}, env: noEnv}))
	if len(all) < 15 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, path := range all {
		name := strings.Join(path, " ")
		try := func(more ...string) (code int, said string) {
			code, out, said := call(t, append(append(append([]string{}, path...), arguments[name]...), more...)...)
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
		{"restore", "cni-20261120-001415-000"}, {"restore", "--batch", "cni-20261120-001415-000"}, {"purge", "--yes", "cni-20261120-001415-000"}, {"purge", "--yes", "--all"},
	} {
		if code, out, said := call(t, append(append([]string{"quarantine"}, args...), "--root-dir", "/nope")...); code != exit.FailedCode {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, said)
		}
	}
	if code, out, _ := call(t, "config", "check", "--root-dir", "/nope"); code != exit.AttentionCode ||
		!strings.Contains(out, "note: cannot find the kubelet's root directory /nope") || strings.Contains(out, "starts now") {
		t.Errorf("config check: exit code %d: %s", code, out)
	}
}
