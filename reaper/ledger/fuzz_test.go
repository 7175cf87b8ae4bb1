package ledger

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// FuzzLedger opens any bytes as a ledger. Either Open refuses them, as damaged or as a newer program's, and keeps the
// file; or the records are in order, no complete line is lost, and appending works.
func FuzzLedger(f *testing.F) {
	line := func(seq int64, kind judge.EventKind) string { return string(lineOf(f, seq, kind)) }
	whole := line(1, "moving") + line(2, "quarantined") + line(3, "cleaning")
	f.Add([]byte(whole))
	f.Add([]byte(whole[:len(whole)-20]))
	f.Add([]byte(whole + "\x00\x00\x00\n"))
	f.Add([]byte(line(1, "moving") + "{}\n" + line(2, "quarantined")))
	f.Add([]byte(line(2, "breaker") + line(1, "restored")))
	f.Add([]byte(`{"seq":9223372036854775807,"kind":"x"}` + "\n"))
	f.Add([]byte(line(1, "0")))                         // a kind of a newer program
	f.Add([]byte(line(1, "moving") + line(2, "newer"))) // such a kind after a known line
	f.Add([]byte("\n\n"))
	f.Add([]byte(strings.Repeat("[", 20_000)))
	dir := memDir(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{sentFile, "ledger.torn-1"} {
			_ = removeFile(dir, name)
		}
		writeFile(t, b, dir, ledgerFile)
		s, err := Open(dir, Options{})
		if err != nil {
			if _, ok := errors.AsType[*DamagedError](err); !ok && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			if !bytes.Equal(readFile(t, dir, ledgerFile), b) {
				t.Fatal("a refused ledger was changed")
			}
			return
		}
		rest := readFile(t, dir, ledgerFile)
		if !bytes.HasPrefix(b, rest) {
			t.Fatal("the ledger was changed before its torn end")
		}
		if len(rest) < len(b) && !bytes.Equal(readFile(t, dir, "ledger.torn-1"), b[len(rest):]) {
			t.Fatal("the torn end was not kept")
		}
		before := all(t, s)
		for i, r := range before {
			if r.Seq <= 0 || r.Kind == "" || i > 0 && r.Seq <= before[i-1].Seq {
				t.Fatalf("record %d is %+v", i, r)
			}
		}
		done, err := s.Append(judge.Event{Kind: judge.EventStarted})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(before); n > 0 && done[0].Seq != before[n-1].Seq+1 {
			t.Fatalf("number %d comes after %d", done[0].Seq, before[n-1].Seq)
		}
		testkit.Must(t, s.Close())
		again, err := Open(dir, Options{})
		testkit.Must(t, err)
		if n := len(all(t, again)); n != len(before)+1 {
			t.Fatalf("%d records after the next open, want %d", n, len(before)+1)
		}
		testkit.Must(t, again.Close())
	})
}
