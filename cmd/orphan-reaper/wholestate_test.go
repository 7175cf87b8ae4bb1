package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

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

// TestNewerLedger checks that every command refuses the ledger of a newer program with a message and keeps all of the
// state, so that the newer program finds it.
func TestNewerLedger(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	store, err := state.Open(n.path("state"), state.Options{})
	testkit.Must(t, err)
	uid := wholeUID(1)
	_, err = store.Append(policy.Record{Kind: "teleported", UID: parsers.PodUID(uid), Entry: uid + ".1"})
	testkit.Must(t, errors.Join(err, store.Close()))
	before := n.stateFiles()
	for _, args := range [][]string{
		{"run", "--log-source", "file", "--log-file", n.path("log")},
		{"sweep", "--no-wait"},
		{"scan"},
		{"explain", uid},
		{"quarantine", "list"},
		{"quarantine", "restore", uid},
		{"quarantine", "purge", "--yes", uid},
		{"quarantine", "resume"},
	} {
		if printed, code := n.printed(args...); code != 1 || !strings.Contains(printed, "newer version of orphan-reaper") {
			t.Errorf("%v: exit code %d\n%s", args, code, printed)
		}
	}
	if after := n.stateFiles(); !maps.Equal(before, after) {
		t.Errorf("was %v\nis %v", before, after)
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
