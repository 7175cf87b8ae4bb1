package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// formatV1 is a state directory of an older program.
const formatV1 = "../../reaper/state/testdata/v1"

// oldNode is a node with an older program's state.
func oldNode(t *testing.T) *wholeNode {
	t.Helper()
	n := newWholeNode(t)
	n.write("log", "")
	testkit.Must(t, os.CopyFS(n.path("state"), os.DirFS(formatV1)))
	testkit.Must(t, os.Chmod(n.path("state"), 0o700))
	n.replace("state/quarantine.json", "/var/lib/kubelet/orphan-reaper", n.path("root/orphan-reaper"))
	return n
}

func (n *wholeNode) replace(name, was, now string) {
	n.t.Helper()
	b, err := os.ReadFile(n.path(name))
	if err != nil || !bytes.Contains(b, []byte(was)) {
		n.t.Fatalf("%s: no %q in it, %v", name, was, err)
	}
	n.write(name, strings.ReplaceAll(string(b), was, now))
}

// stateFiles returns the contents of all files of the state directory; locks are empty.
func (n *wholeNode) stateFiles() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(n.path("state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	testkit.Must(n.t, err)
	return all
}

// TestUpgrade checks that this program shows an older one's state.
func TestUpgrade(t *testing.T) {
	n := oldNode(t)
	n.mkdir("root/orphan-reaper/2c9a1c3e-5f0e-4c39-9d3b-000000000001")
	testkit.Must(t, os.Chmod(n.path("root/orphan-reaper"), 0o700))
	out, code := n.run("quarantine", "list")
	if code != 0 || !strings.Contains(out, "held\t2c9a1c3e-5f0e-4c39-9d3b-000000000001\t") || !strings.Contains(out, "cni-20261101-020304-000") {
		t.Errorf("list: %d\n%s", code, out)
	}
	out, code = n.run("explain", "2c9a1c3e-5f0e-4c39-9d3b-000000000002")
	if code != 0 || strings.Count(out, "2026-11-01 02:") != 3 || !strings.Contains(out, "vol_data.json") {
		t.Errorf("explain of a past pod: %d\n%s", code, out)
	}
	if out, code = n.run("scan"); code != 3 || !strings.Contains(out, "In conflict: 1 pod") {
		t.Errorf("scan: %d\n%s", code, out)
	}
}

// TestRollback checks that every command refuses each file of a newer program with a message and keeps all of the
// state, so that the newer program finds it.
func TestRollback(t *testing.T) {
	const uid = "2c9a1c3e-5f0e-4c39-9d3b-000000000001"
	daemon := []string{"run", "--log-source", "file", "--log-file"}
	all := [][]string{
		daemon,
		{"sweep", "--no-wait"},
		{"scan"},
		{"explain", uid},
		{"quarantine", "list"},
		{"quarantine", "restore", uid},
		{"quarantine", "purge", "--yes", uid},
		{"quarantine", "resume"},
	}
	for name, c := range map[string]struct {
		file, was, now string
		commands       [][]string
	}{
		"directory":   {"version", "1", "2", all},
		"ledger":      {"ledger.jsonl", `"kind":"unswept"`, `"kind":"teleported"`, all},
		"holds":       {"holds.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}}},
		"heard":       {"heard.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}}},
		"home":        {"home.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}, {"quarantine", "purge", "--yes", uid}}},
		"checkpoints": {"checkpoints.json", `"version":1`, `"version":2`, [][]string{daemon}},
		"quarantine":  {"quarantine.json", `"version":1`, `"version":2`, [][]string{daemon, {"sweep", "--no-wait"}, {"quarantine", "restore", uid}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := oldNode(t)
			n.replace("state/"+c.file, c.was, c.now)
			before := n.stateFiles()
			for _, args := range c.commands {
				if args[0] == "run" {
					args = append(slices.Clip(args), n.path("log"))
				}
				if printed, code := n.printed(args...); code != 1 || !strings.Contains(printed, "newer version of orphan-reaper") {
					t.Errorf("%v: exit code %d\n%s", args, code, printed)
				}
			}
			if after := n.stateFiles(); !maps.Equal(before, after) {
				for path := range after {
					if before[path] != after[path] {
						t.Errorf("%s was changed", path)
					}
				}
				t.Errorf("%d files, want %d", len(after), len(before))
			}
		})
	}
}

// asked runs a command of a user with this login UID and SUDO_USER.
func (n *wholeNode) asked(loginUID, sudoUser string, args ...string) (stdout, stderr string) {
	n.t.Helper()
	n.write("loginuid", loginUID)
	cmd := n.command(args...)
	cmd.Env = append(os.Environ(), testLoginUID+"="+n.path("loginuid"), "SUDO_USER="+sudoUser)
	stdout, stderr, _ = outputOf(n.t, cmd)
	return stdout, stderr
}

// records returns the ledger's records.
func (n *wholeNode) records() (all []policy.Record) {
	n.t.Helper()
	store, err := state.OpenReadOnly(n.path("state"), state.Options{})
	testkit.Must(n.t, err)
	for r, err := range store.Records() {
		testkit.Must(n.t, err)
		all = append(all, r)
	}
	testkit.Must(n.t, store.Close())
	return all
}

// TestWholeBy checks that each record of a command has the user who ran it, the kernel's login UID before SUDO_USER,
// that explain shows it, and that a caller's SUDO_USER stays one word.
func TestWholeBy(t *testing.T) {
	n := newWholeNode(t)
	n.cni()
	n.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n")
	n.pod(1, true)
	n.cache(2, "web-0", "")
	uid := wholeUID(1)
	const nobody, forged = "4294967295", "eve\nORPHAN_REAPER_UNDO=/bin/evil x"
	for _, c := range []struct {
		loginUID, sudoUser string
		args               []string
		kinds              []policy.Kind
		by                 string
	}{
		{"1000", "alice", []string{"sweep"}, []policy.Kind{policy.KindParking, policy.KindParked, policy.KindStripped, policy.KindCNIRemoved}, "alice"},
		{"1000", "bob", []string{"quarantine", "restore", uid}, []policy.Kind{policy.KindRestoring, policy.KindRestored}, "alice (SUDO_USER bob)"},
		{"4711", "", []string{"quarantine", "forget", uid}, []policy.Kind{policy.KindForgotten}, "4711"},
		{nobody, forged, []string{"sweep"}, []policy.Kind{policy.KindParked}, "eve?ORPHAN_REAPER_UNDO=?bin?evil?x (SUDO_USER)"},
		{nobody, "", []string{"quarantine", "purge", "--yes", uid}, []policy.Kind{policy.KindPurging, policy.KindRemoved}, ""},
	} {
		before := 0
		if _, err := os.Stat(n.path("state")); err == nil {
			before = len(n.records())
		}
		out, printed := n.asked(c.loginUID, c.sudoUser, c.args...)
		done := map[policy.Kind]bool{}
		for _, r := range n.records()[before:] {
			done[r.Kind] = true
			if r.By.String() != c.by {
				t.Errorf("%v: the record %s is by %q, want %q", c.args, r.Kind, r.By, c.by)
			}
		}
		for _, kind := range c.kinds {
			if !done[kind] {
				t.Errorf("%v wrote no record %s:\n%s%s", c.args, kind, out, printed)
			}
		}
		if strings.Contains(printed, ". Requested by ") != (c.by != "") || !strings.Contains(printed, c.by) {
			t.Errorf("%v shows no %q:\n%s", c.args, c.by, printed)
		}
	}
	out, _ := n.run("explain", uid)
	for _, want := range []string{"  restored, asked for by alice (SUDO_USER bob)\n", "  forgotten, asked for by 4711\n", "  removed\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestWholeQuarantineAway checks that no screen counts on a quarantine that is away or cannot be read.
func TestWholeQuarantineAway(t *testing.T) {
	testkit.NeedProcesses(t)
	for name, c := range map[string]struct {
		change func(n *wholeNode, quarantine string) error
		want   string
	}{
		"moved away": {func(n *wholeNode, q string) error { return os.Rename(q, n.path("away")) }, "is its disk mounted?"},
		"a symlink without the ledger": {func(n *wholeNode, q string) error {
			return errors.Join(os.Rename(q, n.path("away")), os.Symlink(n.path("away"), q), os.RemoveAll(n.path("state")))
		}, "cannot list the quarantine: "},
		"another --quarantine-dir": {func(n *wholeNode, _ string) error {
			n.args = append(n.args, "--quarantine-dir", n.path("root/other"))
			return nil
		}, "set --quarantine-dir "},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWholeNode(t)
			n.pod(1, true)
			n.pod(2, true)
			if out, code := n.run("sweep", wholeUID(1)); code != 0 {
				t.Fatal(out)
			}
			testkit.Must(t, c.change(n, n.path("root/orphan-reaper")))
			for command, want := range map[string]int{"scan": 3, "doctor": 3, "sweep --dry-run": 3, "quarantine list": 1} {
				text, code := n.printed(strings.Fields(command)...)
				if text = strings.Join(strings.Fields(strings.ReplaceAll(text, "#", "")), " "); code != want || !strings.Contains(text, c.want) ||
					strings.Contains(text, "To remove them now") || strings.Contains(text, "1 would be ") {
					t.Errorf("%s: %d, want %d: %s", command, code, want, text)
				}
			}
			if _, err := os.Stat(n.path("root/pods/" + wholeUID(2))); err != nil {
				t.Error(err)
			}
		})
	}
}
