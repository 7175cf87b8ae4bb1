package state

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestBy checks that each record of a command has the user who ran it, also a record that finishes another user's
// intent, and that records of the daemon have none.
func TestBy(t *testing.T) {
	dir := memDir(t)
	uid := uint32(1000)
	alice, bob := &policy.User{UID: &uid, Login: "alice"}, &policy.User{SudoUser: "bob"}
	s := open(t, dir, Options{By: alice})
	got := appendTo(t, s, policy.Record{Kind: policy.KindParking, UID: "u", Entry: "u.1"},
		policy.Record{Kind: policy.KindRestored, UID: "v", Entry: "v.1", By: bob})
	if got[0].By != alice || got[1].By != bob {
		t.Errorf("appended %+v", got)
	}
	// A daemon's intent that this command finishes has no user.
	began := policy.EntryState{Entry: "w.1", UID: "w", Phase: policy.PhaseParking}
	rec, _ := policy.Recover(began, true, policy.Instant{})
	if got := appendTo(t, s, *rec); got[0].By != nil {
		t.Errorf("the daemon's is by %s", got[0].By)
	}
	testkit.Must(t, s.Close())
	s = open(t, dir, Options{})
	appendTo(t, s, policy.Record{Kind: policy.KindResumed})
	records := all(t, s)
	for i, want := range []string{"alice", "bob (SUDO_USER)", "", ""} {
		if r := records[i]; r.By.String() != want || *alice.UID != 1000 {
			t.Errorf("record %d is by %q, want %q", r.Seq, r.By, want)
		}
	}
	if e := s.Entries()["u.1"]; e == nil || e.By.Name() != "alice" {
		t.Errorf("open entry: %+v", e)
	}
}

// TestLaterField checks that a program without a field reads the record and keeps the line unchanged, as after a
// downgrade.
func TestLaterField(t *testing.T) {
	dir := memDir(t)
	body, err := json.Marshal(policy.Record{Seq: 1, Kind: policy.KindParked, UID: "u", Entry: "u.1"})
	testkit.Must(t, err)
	body = append(bytes.TrimSuffix(body, []byte("}")), `,"later":{"uid":1000,"more":["x"]}`...)
	line := appendSum(body, body)
	testkit.Must(t, func() error { s, err := Open(dir, Options{}); testkit.Must(t, err); return s.Close() }())
	writeFile(t, line, dir, ledgerFile)
	s := open(t, dir, Options{})
	appendTo(t, s, policy.Record{Kind: policy.KindResumed})
	if e := s.Entries()["u.1"]; e == nil || e.Phase != policy.PhaseParked {
		t.Errorf("read as %+v", e)
	}
	if now := readFile(t, dir, ledgerFile); !bytes.HasPrefix(now, line) {
		t.Errorf("was %snow %s", line, now)
	}
}
