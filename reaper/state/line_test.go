package state

import (
	"bytes"
	"errors"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// flips are the records of the ledger in which the tests flip bits. The last text has a byte one bit from a newline
// and one that is one bit from zero.
var flips = []policy.Record{
	{Kind: policy.KindParked, UID: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11", Entry: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11.1"},
	{Kind: policy.KindFailed, UID: "1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11", Text: "J * @ <>&"},
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

// TestEveryBitFlipStops: without the checksum most flips change a UID, a number or a name unnoticed.
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
	if accepted, all := countFlips(t, withoutSums(t, b)); accepted < all/4 {
		t.Errorf("without the checksum only %d of %d were accepted, so this test proves little", accepted, all)
	}
}

// withoutSums returns the ledger as written by programs without the checksum.
func withoutSums(t *testing.T, b []byte) []byte {
	t.Helper()
	var old []byte
	for line := range bytes.Lines(b) {
		if summed, err := checkSum(line); err != nil || !summed {
			t.Fatalf("no checksum in %s: %v", line, err)
		}
		old = append(old, line[:len(line)-sumTail]...)
		old = append(old, "}\n"...)
	}
	return old
}

// TestOldLinesAreRead checks that Open reads a ledger without checksums, appends lines with them, and accepts lines
// that an older program adds later.
func TestOldLinesAreRead(t *testing.T) {
	dir := memDir(t)
	add := func(records ...policy.Record) {
		t.Helper()
		s, err := Open(dir, Options{})
		testkit.Must(t, err)
		_, err = s.Append(records...)
		testkit.Must(t, err)
		testkit.Must(t, s.Close())
	}
	add(flips...)
	old := withoutSums(t, readFile(t, dir, ledgerFile))
	writeFile(t, old, dir, ledgerFile)
	add(flips[0])
	mixed := readFile(t, dir, ledgerFile)
	if !bytes.HasPrefix(mixed, old) {
		t.Fatal("the old lines were changed")
	}
	older := bytes.ReplaceAll(bytes.SplitAfter(old, []byte("\n"))[0], []byte(`"seq":1,`), []byte(`"seq":5,`))
	writeFile(t, append(mixed, older...), dir, ledgerFile)
	add(flips[0])
	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	if n := len(all(t, s)); n != len(flips)+3 {
		t.Fatalf("%d records, want %d", n, len(flips)+3)
	}
	testkit.Must(t, s.Close())
}
