package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// asked runs a command of a user who has logged in with this UID and sets SUDO_USER.
func (n *wholeNode) asked(loginUID, sudoUser string, args ...string) (stdout, stderr string) {
	n.t.Helper()
	n.write("loginuid", loginUID)
	cmd := n.command(args...)
	cmd.Env = append(os.Environ(), testLoginUID+"="+n.path("loginuid"), "SUDO_USER="+sudoUser)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // exit code 3 reports that something is kept
	return out.String(), errs.String()
}

// records are those of the ledger.
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

// TestWholeBy: each record of a command names the user who ran it, by the kernel's login UID before SUDO_USER,
// and explain shows it. A caller's SUDO_USER stays one word.
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
	out, _ = n.run("explain", "-o", "json", uid)
	var view struct {
		History []struct {
			Kind policy.Kind
			By   *struct {
				UID      *uint32
				Login    string
				SudoUser string `json:"sudo_user"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.History) == 0 {
		t.Fatalf("%v in %s", err, out)
	}
	if by := view.History[0].By; by == nil || by.UID == nil || *by.UID != 1000 || by.Login != "alice" || by.SudoUser != "alice" {
		t.Errorf("by %+v in %s", by, out)
	}
}

// TestWholeDaemonByNobody: the daemon's actions name no user, also if a user started it.
func TestWholeDaemonByNobody(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.write("loginuid", "0")
	n.pod(1, true)
	cmd := n.command("run", "--log-source", "file", "--log-file", n.path("log"))
	cmd.Env = append(os.Environ(), testLoginUID+"="+n.path("loginuid"), "SUDO_USER=alice")
	daemon := n.start(cmd)
	n.appears("root/orphan-reaper") // the quarantine, made after the first intent
	if code := daemon.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, daemon.printed())
	}
	all := n.records()
	if len(all) == 0 {
		t.Error("the daemon has left no record")
	}
	for _, r := range all {
		if r.By != nil {
			t.Errorf("%s is by %s", r.Kind, r.By)
		}
	}
}
