package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestLedgerOutlivesTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	var want []judge.Event
	want = append(want, appendTo(t, s, life(1, judge.EventCleaned)...)...)
	want = append(want, appendTo(t, s, life(2, judge.EventRemoved)...)...)
	want = append(want, appendTo(t, s, judge.Event{Kind: judge.EventRestored, UID: uid(3), Entry: "three"})...)
	want = append(want, appendTo(t, s, life(4, judge.EventQuarantined)...)...)
	entries := s.Entries()
	testkit.Must(t, s.Close())

	s = open(t, dir, Options{})
	got := all(t, s)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back:\n%+v\nwant:\n%+v", got, want)
	}
	for i, r := range got {
		if r.Seq != int64(i)+1 {
			t.Errorf("record %d has number %d", i, r.Seq)
		}
	}
	if !reflect.DeepEqual(s.Entries(), entries) {
		t.Errorf("entries read back differ:\n%+v\n%+v", s.Entries(), entries)
	}
	var folded judge.Folded
	for _, r := range want {
		folded.Apply(r)
	}
	if !reflect.DeepEqual(entries, folded.Entries) {
		t.Errorf("entries are not those that folding makes:\n%+v\n%+v", entries, folded.Entries)
	}
	if next := appendTo(t, s, judge.Event{Kind: judge.EventStarted}); next[0].Seq != int64(len(want))+1 {
		t.Errorf("the next record has number %d, want %d", next[0].Seq, len(want)+1)
	}
}

func TestEntriesAreACopy(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	appendTo(t, s, life(1, judge.EventCleaned)...)
	name := string(uid(1)) + "-1"
	e := s.Entries()
	delete(e, name)
	if got := s.Entries()[name]; got.Phase != judge.Retained {
		t.Errorf("a caller's change is visible in the store: %+v", got)
	}
}

func TestAppendRefusesWhatCannotBeReadBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := s.Append(judge.Event{Kind: judge.EventStarted}, judge.Event{}); err == nil {
		t.Error("a record without a kind was accepted")
	}
	if b := readFile(t, dir, ledgerFile); len(b) != 0 {
		t.Errorf("a part of the batch was written: %s", b)
	}
	if done, err := s.Append(); done != nil || err != nil {
		t.Errorf("an empty batch gave %v, %v", done, err)
	}
}

// ledgerOf returns the bytes of a ledger of a few batches.
func ledgerOf(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	appendTo(t, s, life(1, judge.EventQuarantined)...)
	appendTo(t, s, life(2, judge.EventMoving)...)
	appendTo(t, s, judge.Event{Kind: judge.EventStarted, Err: "é \x00 <&>"})
	return readFile(t, dir, ledgerFile)
}

func TestCutAtEveryByte(t *testing.T) {
	whole := ledgerOf(t)
	shm := memDir(t)
	for n := range len(whole) + 1 {
		dir := filepath.Join(shm, strconv.Itoa(n))
		testkit.Must(t, os.Mkdir(dir, 0o700))
		cut := whole[:n]
		writeFile(t, cut, dir, ledgerFile)
		lines := bytes.Count(cut, []byte("\n"))
		good := cut[:bytes.LastIndexByte(cut, '\n')+1]

		ro, err := OpenReadOnly(dir, Options{})
		testkit.Must(t, err)
		if got := len(all(t, ro)); got != lines {
			t.Fatalf("cut at %d: read-only has %d records, want %d", n, got, lines)
		}
		testkit.Must(t, ro.Close())
		if !bytes.Equal(readFile(t, dir, ledgerFile), cut) {
			t.Fatalf("cut at %d: OpenReadOnly changed the file", n)
		}

		log, text := logged()
		s, err := Open(dir, Options{Log: log})
		testkit.Must(t, err)
		if got := len(all(t, s)); got != lines {
			t.Fatalf("cut at %d: %d records, want %d", n, got, lines)
		}
		if !bytes.Equal(readFile(t, dir, ledgerFile), good) {
			t.Fatalf("cut at %d: the file is not cut after its last whole line", n)
		}
		if len(cut) > len(good) {
			if kept := readFile(t, dir, "ledger.torn-1"); !bytes.Equal(kept, cut[len(good):]) {
				t.Fatalf("cut at %d: kept %q, want %q", n, kept, cut[len(good):])
			}
			if !strings.Contains(text.String(), "ledger.torn-1") {
				t.Fatalf("cut at %d: the log has no name of the torn file: %s", n, text)
			}
		} else if text.Len() > 0 {
			t.Fatalf("cut at %d: a complete ledger was reported: %s", n, text)
		}
		if next := appendTo(t, s, judge.Event{Kind: judge.EventStarted}); next[0].Seq != int64(lines)+1 {
			t.Fatalf("cut at %d: the next number is %d", n, next[0].Seq)
		}
		testkit.Must(t, s.Close())
		s, err = Open(dir, Options{})
		testkit.Must(t, err)
		if got := len(all(t, s)); got != lines+1 {
			t.Fatalf("cut at %d: %d records after the next open, want %d", n, got, lines+1)
		}
		testkit.Must(t, s.Close())
	}
}

// memDir returns a directory in memory if possible: these tests check what is written and do not depend on the disk.
func memDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join("/dev/shm", fmt.Sprintf("orphan-reaper-%s-%d", tb.Name(), os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestZerosAtTheEndAreCutOff(t *testing.T) {
	whole := ledgerOf(t)
	for name, tail := range map[string]string{
		"zeros":               strings.Repeat("\x00", 5000),
		"zeros and a newline": strings.Repeat("\x00", 300) + "\n",
		"zeros, half a line":  strings.Repeat("\x00", 300) + `me":"x"}` + "\n" + `{"seq":9`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, append(bytes.Clone(whole), tail...), dir, ledgerFile)
			s := open(t, dir, Options{})
			if got := len(all(t, s)); got != 4 {
				t.Errorf("%d records, want 4", got)
			}
			if !bytes.Equal(readFile(t, dir, ledgerFile), whole) || string(readFile(t, dir, "ledger.torn-1")) != tail {
				t.Error("the torn end was not moved aside")
			}
		})
	}
}

func TestDamageStopsEverything(t *testing.T) {
	whole := ledgerOf(t)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(change int, to string) []byte {
		ls := append([][]byte(nil), lines...)
		ls[change] = []byte(to)
		return bytes.Join(ls, nil)
	}
	half := string(lines[1][:40])
	for name, tc := range map[string]struct {
		file []byte
		line int
	}{
		"first line":              {join(0, "garbage\n"), 1},
		"middle line":             {join(1, half+"\n"), 2},
		"middle line's newline":   {join(1, half), 2},
		"zeros in the middle":     {join(1, strings.Repeat("\x00", 500)+"\n"), 2},
		"zeros run into a line":   {join(1, strings.Repeat("\x00", 500)), 2},
		"last line, with its end": {join(3, half+"\n"), 4},
		"empty line":              {join(1, "\n"), 2},
		"null":                    {join(1, "null\n"), 2},
		"another kind of value":   {join(1, "[1,2]\n"), 2},
		"two on a line":           {join(1, string(bytes.TrimSpace(lines[1]))+string(lines[2])), 2},
		"number comes again":      {join(2, string(lines[1])), 3},
		"lines in wrong order":    {append(append([]byte(nil), lines[1]...), lines[0]...), 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, tc.file, dir, ledgerFile)
			for _, open := range []func(string, Options) (*Store, error){Open, OpenReadOnly} {
				s, err := open(dir, Options{})
				damaged, ok := errors.AsType[*DamagedError](err)
				if !ok {
					if s != nil {
						_ = s.Close()
					}
					t.Fatalf("opened with error %v, want a DamagedError", err)
				}
				if damaged.Line != tc.line || !strings.Contains(err.Error(), filepath.Join(dir, ledgerFile)+": line "+strconv.Itoa(tc.line)) {
					t.Errorf("the error does not have line %d: %v", tc.line, err)
				}
				if !bytes.Equal(readFile(t, dir, ledgerFile), tc.file) {
					t.Error("the file was changed")
				}
				if torn, _ := filepath.Glob(filepath.Join(dir, "ledger.torn-*")); torn != nil {
					t.Errorf("a file was moved aside: %v", torn)
				}
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"))
	defer func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	s := open(t, dir, Options{})
	var seq int64
	for i := range 1000 {
		before := readFile(t, dir, ledgerFile)
		done, err := s.Append(life(i, judge.EventCleaned)...)
		if err == nil {
			seq = done[len(done)-1].Seq
			continue
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		if after := readFile(t, dir, ledgerFile); !bytes.Equal(after, before) {
			t.Fatalf("the file grew from %d to %d bytes by a failed append", len(before), len(after))
		}
		if got := s.ledger.seq; got != seq {
			t.Errorf("a failed append counted: number %d, want %d", got, seq)
		}
		break
	}
	testkit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m"))
	if done := appendTo(t, s, judge.Event{Kind: judge.EventStarted}); done[0].Seq != seq+1 {
		t.Errorf("with room again the next number is %d, want %d", done[0].Seq, seq+1)
	}
	testkit.Must(t, s.Close())
	s = open(t, dir, Options{})
	if got := len(all(t, s)); int64(got) != seq+1 {
		t.Errorf("%d records read back, want %d", got, seq+1)
	}
}

func TestKilledWriter(t *testing.T) {
	dir := memDir(t)
	rounds := 12
	if os.Getenv("ORPHAN_REAPER_LONG") == "1" {
		rounds = 80
	}
	var acked int64
	for round := range rounds {
		cmd, out := startWriter(t, dir, "w", 100_000)
		for range round%7*3 + 1 {
			if !out.Scan() {
				t.Fatal("the writer ended before the kill")
			}
			n, err := strconv.ParseInt(out.Text(), 10, 64)
			testkit.Must(t, err)
			acked = n
		}
		testkit.Must(t, cmd.Process.Kill())
		for out.Scan() {
			// Numbers that it printed before the kill count as acknowledged.
			if n, err := strconv.ParseInt(out.Text(), 10, 64); err == nil {
				acked = n
			}
		}
		_ = cmd.Wait()
		s, err := Open(dir, Options{})
		testkit.Must(t, err)
		rs := all(t, s)
		for i, r := range rs {
			if r.Seq != int64(i)+1 {
				t.Fatalf("round %d: record %d has number %d", round, i, r.Seq)
			}
		}
		if int64(len(rs)) < acked {
			t.Fatalf("round %d: %d records, but %d were acknowledged", round, len(rs), acked)
		}
		testkit.Must(t, s.Close())
	}
}

func TestTwoProcessesAppend(t *testing.T) {
	dir := memDir(t)
	const batches = 150
	a, outA := startWriter(t, dir, "a", batches)
	b, outB := startWriter(t, dir, "b", batches)
	for outA.Scan() {
		continue
	}
	for outB.Scan() {
		continue
	}
	testkit.Must(t, errors.Join(a.Wait(), b.Wait()))
	s := open(t, dir, Options{})
	rs := all(t, s)
	if len(rs) != 2*3*batches {
		t.Fatalf("%d records, want %d", len(rs), 2*3*batches)
	}
	next := map[string]int{}
	for i, r := range rs {
		if r.Seq != int64(i)+1 {
			t.Fatalf("record %d has number %d", i, r.Seq)
		}
		// The batches of two processes are not mixed.
		if r.Kind != [...]judge.EventKind{judge.EventStarted, judge.EventKept, judge.EventMoving}[i%3] {
			t.Fatalf("record %d is %s", i, r.Kind)
		}
		name, _, _ := strings.Cut(r.PodName, "-")
		if want := fmt.Sprintf("%s-%d", name, next[name]); r.PodName != want {
			t.Fatalf("record %d is of %s, want %s", i, r.PodName, want)
		}
		if i%3 == 2 {
			next[name]++
		}
	}
	if got := s.Entries(); len(got) != 2 || got["a"].UID != uid(0) {
		t.Errorf("entries: %v", got)
	}
}

// Each of these tests disables one guard and shows the loss.

func TestWithoutReadingOnARecordIsLost(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	appendTo(t, a, judge.Event{Kind: judge.EventRestored, UID: uid(1), Entry: "e"})
	testkit.Must(t, b.write([]byte(`{"seq":1,"kind":"started","text":"written without the lock and without reading on, over the other one"}`+"\n")))
	s, err := Open(dir, Options{})
	if err == nil {
		defer func() { testkit.Must(t, s.Close()) }()
		if _, ok := s.Restored()[uid(1)]; ok {
			t.Fatal("the record was not lost without the lock")
		}
	}
}

func TestWithoutCuttingOffTheLedgerIsDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := ledgerOf(t)
	first := whole[:bytes.IndexByte(whole, '\n')+1]
	torn := append(bytes.Clone(first), whole[len(first):len(first)+30]...)
	writeFile(t, append(torn, whole[len(first):]...), dir, ledgerFile) // appended after the torn line
	if _, err := Open(dir, Options{}); err == nil {
		t.Fatal("a ledger with records after a torn line was opened")
	}
}

func TestLedgerRemovedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	appendTo(t, s, life(1, judge.EventQuarantined)...)
	testkit.Must(t, os.Truncate(filepath.Join(dir, ledgerFile), 10))
	if _, err := s.Append(judge.Event{Kind: judge.EventStarted}); err == nil {
		t.Error("appended to a truncated ledger")
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, ledgerFile)))
	if _, err := s.Append(judge.Event{Kind: judge.EventStarted}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("appended to a removed ledger: %v", err)
	}
}

func TestBreaker(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	want := func(open bool) {
		t.Helper()
		if _, is := s.Breaker(); is != open {
			t.Errorf("the breaker is open: %v, want %v", !open, open)
		}
	}
	want(false)
	appendTo(t, s, judge.Event{Kind: judge.EventBreaker, UID: uid(1)})
	want(true)
	if r, _ := s.Breaker(); r.UID != uid(1) {
		t.Errorf("the breaker's record is of %q", r.UID)
	}
	testkit.Must(t, s.Close())
	s = open(t, dir, Options{})
	want(true)
	appendTo(t, s, judge.Event{Kind: judge.EventResumed})
	want(false)
	appendTo(t, s, judge.Event{Kind: judge.EventBreaker})
	want(true)
}
