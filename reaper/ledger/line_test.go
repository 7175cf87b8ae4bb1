package ledger

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// flips are the records of the ledger in which the tests flip bits. The last text has a byte one bit from a newline
// and one that is one bit from zero.
var flips = []judge.Event{
	{Kind: judge.EventQuarantined, UID: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11", Entry: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11.1"},
	{Kind: judge.EventFailed, UID: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11", Err: "J * @ <>&"},
}

// countFlips flips each bit of the ledger b in turn and returns how many of the damaged ledgers Open accepted.
func countFlips(t *testing.T, b []byte) (accepted, all int) {
	t.Helper()
	dir := memDir(t)
	for i := range b {
		for bit := range 8 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1 << bit
			writeFile(t, damaged, dir, ledgerFile)
			all++
			s, err := OpenReadOnly(dir, Options{})
			if err == nil {
				accepted++
				testkit.Must(t, s.Close())
				continue
			}
			if _, ok := errors.AsType[*DamagedError](err); !ok && !errors.Is(err, ErrNewer) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
	}
	return accepted, all
}

// TestEveryBitFlipStops: JSON alone would accept most of them, with another UID, number or name.
func TestEveryBitFlipStops(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Options{})
	testkit.Must(t, err)
	_, err = s.Append(flips...)
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
	b := readFile(t, dir, ledgerFile)
	if accepted, all := countFlips(t, b); accepted > 0 {
		t.Errorf("%d of %d ledgers with one flipped bit were accepted", accepted, all)
	}
}

// lineOf returns a whole line of the ledger.
func lineOf(tb testing.TB, seq int64, kind judge.EventKind) []byte {
	tb.Helper()
	var b bytes.Buffer
	testkit.Must(tb, encode(&b, judge.Event{Seq: seq, Kind: kind, UID: "u", Entry: "e"}))
	return b.Bytes()
}

// TestLineWithoutSum checks that a record without its checksum is damage, whatever its JSON is worth.
func TestLineWithoutSum(t *testing.T) {
	dir := memDir(t)
	line := lineOf(t, 1, judge.EventQuarantined)
	writeFile(t, append(line[:len(line)-sumTail], "}\n"...), dir, ledgerFile)
	_, err := Open(dir, Options{})
	if _, ok := errors.AsType[*DamagedError](err); !ok {
		t.Error(err)
	}
}

// TestNewerRecordIsLeftUntouched checks that a record of an unknown kind, an action of a newer program, stops Open. A
// program that ignored it would lose track of entries in quarantine.
func TestNewerRecordIsLeftUntouched(t *testing.T) {
	dir := memDir(t)
	ledger := slices.Concat(lineOf(t, 1, "quarantined"), lineOf(t, 2, "teleported"))
	for name, rest := range map[string][]byte{"last": nil, "torn behind": lineOf(t, 3, "resumed")[:12], "more behind": lineOf(t, 3, "resumed")} {
		writeFile(t, slices.Concat(ledger, rest), dir, ledgerFile)
		s, err := OpenReadOnly(dir, Options{})
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "teleported") {
			t.Errorf("%s: to read: %v, %v", name, s, err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "install that one") {
			t.Errorf("%s: to write: %v", name, err)
		}
		if got := readFile(t, dir, ledgerFile); !bytes.Equal(got, slices.Concat(ledger, rest)) {
			t.Errorf("%s: the ledger was changed", name)
		}
	}
}
