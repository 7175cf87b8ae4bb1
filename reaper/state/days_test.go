package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestDays checks that dropped records stay in the table of days, each counted once: after a compaction, after one
// that was killed between its two files, and after the next one.
func TestDays(t *testing.T) {
	dir := memDir(t)
	s := open(t, dir, Options{})
	counted := func(want int64, since bool) {
		t.Helper()
		reader, err := OpenReadOnly(dir, Options{})
		testkit.Must(t, err)
		table, err := reader.Days()
		testkit.Must(t, err)
		var removed int64
		for _, d := range table.Days {
			removed += d.Removed
		}
		if removed != want || table.Since.IsZero() == since {
			t.Errorf("%d pods since %s, want %d", removed, table.Since, want)
		}
		testkit.Must(t, reader.Close())
	}
	at := policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for i := range 300 {
		appendTo(t, s, policy.Record{Kind: policy.KindRemoved, UID: uid(i), Entry: string(uid(i)), At: at})
	}
	testkit.Must(t, s.Sent(300))
	counted(300, true)
	whole := readFile(t, dir, ledgerFile)
	testkit.Must(t, s.Close())

	s = open(t, dir, Options{CompactBytes: 1000, KeepRecords: 20})
	if n := len(all(t, s)); n != 20 {
		t.Fatalf("%d records remain", n)
	}
	counted(300, true)
	appendTo(t, s, policy.Record{Kind: policy.KindRemoved, UID: uid(1), Entry: "again", At: at})
	counted(301, true)
	testkit.Must(t, s.Close())

	// The process was killed before the ledger was replaced: the ledger is complete, and the table has the records,
	// too.
	writeFile(t, whole, dir, ledgerFile)
	counted(300, true)
	s = open(t, dir, Options{CompactBytes: 1000, KeepRecords: 20})
	counted(300, true)
	testkit.Must(t, s.Close())

	// A damaged or lost table is rebuilt from the ledger.
	for _, text := range []string{"{", ""} {
		if text == "" {
			testkit.Must(t, os.Remove(filepath.Join(dir, "days.json")))
		} else {
			writeFile(t, []byte(text), dir, "days.json")
		}
		counted(20, true)
	}
}

// TestNew checks that a new directory differs from one without records.
func TestNew(t *testing.T) {
	dir := memDir(t)
	for _, where := range []string{dir, filepath.Join(dir, "none")} {
		reader, err := OpenReadOnly(where, Options{})
		testkit.Must(t, err)
		if !reader.New() {
			t.Errorf("%s is not new", where)
		}
		testkit.Must(t, reader.Close())
	}
	if s := open(t, dir, Options{}); s.New() {
		t.Error("an open directory is new")
	}
}
