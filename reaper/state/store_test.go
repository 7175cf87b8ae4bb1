package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// snapshot returns the names and contents of everything in dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, e := range entries {
		if e.Type().IsRegular() {
			files[e.Name()] = string(readFile(t, dir, e.Name()))
		} else {
			files[e.Name()] = e.Type().String()
		}
	}
	return files
}

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, dir, Options{})
	info, err := os.Lstat(dir)
	testkit.Must(t, err)
	if info.Mode() != os.ModeDir|0o700 {
		t.Errorf("mode %v, want drwx------", info.Mode())
	}
	files, err := os.ReadDir(dir)
	testkit.Must(t, err)
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v; want -rw-------", f.Name(), info.Mode(), err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	mkdir := func(dir string) error { return os.Mkdir(dir, 0o700) }
	for name, tc := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"symlink":          {func(dir string) error { return os.Symlink(t.TempDir(), dir) }, "a symlink is not followed"},
		"file":             {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "is no directory"},
		"others may write": {func(dir string) error { return errors.Join(mkdir(dir), os.Chmod(dir, 0o770)) }, "others may write to it"},
		"another owner":    {func(dir string) error { return errors.Join(mkdir(dir), os.Chown(dir, 4711, 0)) }, "user 4711 owns it"},
		"ledger that is a FIFO": {func(dir string) error {
			return errors.Join(mkdir(dir), unix.Mkfifo(filepath.Join(dir, ledgerFile), 0o600))
		}, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another owner" {
				testkit.NeedUsers(t)
			}
			dir := filepath.Join(t.TempDir(), "state")
			testkit.Must(t, tc.make(dir))
			_, err := Open(dir, Options{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Options{})
	appendTo(t, w, life(1, policy.KindParked)...)
	testkit.Must(t, w.Save("holds", 7))
	testkit.Must(t, w.Close())
	writeFile(t, []byte("{"), dir, "bad.json")
	before := snapshot(t, dir)

	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	defer func() { _ = s.Close() }()
	var n int
	if ok, err := s.Load("holds", &n); !ok || err != nil || n != 7 {
		t.Errorf("Load gave %d, %v, %v", n, ok, err)
	}
	if ok, err := s.Load("bad", &n); ok || err != nil {
		t.Errorf("Load of a damaged value gave %v, %v", ok, err)
	}
	if len(s.Entries()) != 1 || len(s.Unsent()) != 1 {
		t.Errorf("%d entries and %d unsent records, want 1 and 1", len(s.Entries()), len(s.Unsent()))
	}
	_, errAppend := s.Append(policy.Record{Kind: policy.KindStarted})
	_, errRun := s.LockRun()
	_, errEnter := s.Enter(t.Context())
	for _, err := range []error{errAppend, errRun, errEnter, s.Save("holds", 8), s.Sent(1)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("error %v, want ErrReadOnly", err)
		}
	}
	if after := snapshot(t, dir); !reflect.DeepEqual(before, after) {
		t.Errorf("the directory was changed: %v, before %v", after, before)
	}
	// A read-only store reads later records.
	w = open(t, dir, Options{})
	appendTo(t, w, life(2, policy.KindParked)...)
	testkit.Must(t, s.Refresh())
	if len(s.Entries()) != 2 {
		t.Errorf("%d entries after Refresh, want 2", len(s.Entries()))
	}
}

func TestReadOnlyWithoutADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	var v int
	ok, err := s.Load("holds", &v)
	if ok || err != nil || len(s.Entries()) != 0 || s.BreakerOpen() || len(s.Unsent()) != 0 || len(all(t, s)) != 0 {
		t.Errorf("an absent directory is not empty: %v, %v", ok, err)
	}
	testkit.Must(t, s.Refresh())
	testkit.Must(t, s.Close())
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory was made")
	}
}

func TestReadOnlyForOtherUsers(t *testing.T) {
	testkit.NeedUsers(t)
	dir := memDir(t) // its parents are readable by all users
	w := open(t, dir, Options{})
	appendTo(t, w, life(1, policy.KindParked)...)

	// setfsuid(2) changes the thread only, and drops its capabilities on files.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	testkit.Must(t, unix.Setfsuid(65534))
	_, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, unix.Setfsuid(0))
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v, want a permission error", err)
	}
	testkit.Must(t, os.Chmod(dir, 0o755))
	for _, f := range []string{ledgerFile, sentFile} {
		testkit.Must(t, os.Chmod(filepath.Join(dir, f), 0o644))
	}
	testkit.Must(t, unix.Setfsuid(65534))
	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, unix.Setfsuid(0))
	testkit.Must(t, err)
	if len(s.Entries()) != 1 {
		t.Errorf("%d entries, want 1", len(s.Entries()))
	}
	testkit.Must(t, s.Close())
}

func TestValues(t *testing.T) {
	dir := t.TempDir()
	log, text := logged()
	s := open(t, dir, Options{Log: log})
	type value struct {
		Holds map[string]policy.Hold
	}
	want := value{Holds: map[string]policy.Hold{"x": {Since: policy.Instant{Boot: 5, BootID: "b"}, ID: policy.DirID{Ino: 9}}}}
	var got value
	if ok, err := s.Load("holds", &got); ok || err != nil {
		t.Fatalf("Load of a missing value gave %v, %v", ok, err)
	}
	testkit.Must(t, s.Save("holds", want))
	if ok, err := s.Load("holds", &got); !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("Load gave %+v, %v, %v", got, ok, err)
	}
	whole := readFile(t, dir, "holds.json")
	for n := range len(whole) - 1 { // without its last newline the value is still complete
		writeFile(t, whole[:n], dir, "holds.json")
		text.Reset()
		for i := range 2 {
			if ok, err := s.Load("holds", &value{}); ok || err != nil {
				t.Fatalf("cut at %d: Load gave %v, %v", n, ok, err)
			}
			if found := strings.Contains(text.String(), "holds.corrupt-"); found != (i == 0) {
				if i == 0 || strings.Count(text.String(), "holds.corrupt-") > 1 {
					t.Fatalf("cut at %d: logged %v at load %d: %s", n, found, i, text)
				}
			}
		}
		if kept := readFile(t, dir, fmt.Sprintf("holds.corrupt-%d", n+1)); string(kept) != string(whole[:n]) {
			t.Fatalf("cut at %d: kept %q", n, kept)
		}
	}
	for _, name := range []string{"", "..", "a/b", "A", "a.b", "\x00"} {
		if err := s.Save(name, 1); err == nil {
			t.Errorf("a value may be called %q", name)
		}
	}
	if err := s.Save("fn", func() {}); err == nil {
		t.Error("Save accepted a function")
	}
}

func TestSent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	rs := appendTo(t, s, life(1, policy.KindRemoved)...)
	kinds := func(s *Store) (k []policy.Kind) {
		for _, r := range s.Unsent() {
			k = append(k, r.Kind)
		}
		return k
	}
	if got := kinds(s); !reflect.DeepEqual(got, []policy.Kind{policy.KindParked, policy.KindStripped, policy.KindRemoved}) {
		t.Fatalf("unsent: %v", got)
	}
	if got := s.Unsent()[1]; !reflect.DeepEqual(got, rs[3]) {
		t.Errorf("an unsent record is\n%+v\nwant\n%+v", got, rs[3])
	}
	testkit.Must(t, s.Sent(rs[1].Seq))
	testkit.Must(t, s.Sent(1)) // an older number has no effect
	want := []policy.Kind{policy.KindStripped, policy.KindRemoved}
	if got := kinds(s); !reflect.DeepEqual(got, want) {
		t.Errorf("unsent: %v, want %v", got, want)
	}
	other := open(t, dir, Options{})
	if got := kinds(other); !reflect.DeepEqual(got, want) {
		t.Errorf("unsent in another process: %v, want %v", got, want)
	}
	testkit.Must(t, s.Sent(rs[5].Seq))
	testkit.Must(t, other.Sent(rs[3].Seq))
	if got := kinds(other); got != nil {
		t.Errorf("another process would send sent records again: %v", got)
	}
	if err := s.Sent(99); err == nil {
		t.Error("a nonexistent record was accepted as sent")
	}
	testkit.Must(t, errors.Join(s.Close(), other.Close()))

	// Without the marker everything is unsent again; without the ledger the numbers continue.
	writeFile(t, nil, dir, sentFile)
	s = open(t, dir, Options{})
	if got := kinds(s); len(got) != 3 {
		t.Errorf("unsent after the marker was lost: %v", got)
	}
	testkit.Must(t, s.Sent(6))
	testkit.Must(t, errors.Join(s.Close(), os.Remove(filepath.Join(dir, ledgerFile))))
	s = open(t, dir, Options{})
	if got := appendTo(t, s, policy.Record{Kind: policy.KindStarted}); got[0].Seq != 7 || len(s.Unsent()) != 1 {
		t.Errorf("a new ledger begins at number %d, and %d records are unsent; want 7 and 1", got[0].Seq, len(s.Unsent()))
	}
}

func TestCompact(t *testing.T) {
	dir := memDir(t)
	s := open(t, dir, Options{})
	appendTo(t, s, policy.Record{Kind: policy.KindBreaker, UID: uid(0)})
	appendTo(t, s, life(1, policy.KindStripped)...)
	appendTo(t, s, policy.Record{Kind: policy.KindResumed}, policy.Record{Kind: policy.KindBreaker, UID: uid(2)})
	appendTo(t, s, policy.Record{Kind: policy.KindRestoring, UID: uid(3), Entry: "three"}, policy.Record{Kind: policy.KindRestored, UID: uid(3), Entry: "three"})
	for _, kind := range []policy.Kind{policy.KindRestoring, policy.KindRestored, policy.KindForgotten} {
		appendTo(t, s, policy.Record{Kind: kind, UID: uid(4), Entry: "four"})
	}
	for i := range 300 {
		appendTo(t, s, life(100+i, policy.KindRemoved)...)
	}
	last := appendTo(t, s, life(9999, policy.KindParked)...)
	unsentFrom := last[0].Seq - 31
	testkit.Must(t, s.Sent(unsentFrom))
	unsent, entries, story := s.Unsent(), s.Entries(), all(t, s)
	testkit.Must(t, s.Close())
	reader, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	defer func() { _ = reader.Close() }()

	if entries["three"] == nil || entries["four"] != nil {
		t.Errorf("entries of a restored and a forgotten pod: %v, %v", entries["three"], entries["four"])
	}

	// A killed compaction's files are harmless.
	writeFile(t, bytes.Repeat([]byte("half a ledger\n"), 100_000), dir, ledgerFile+".tmp")
	small := Options{CompactBytes: 1000, KeepRecords: 50}
	s = open(t, dir, small)
	got := all(t, s)
	if n := len(got); n < 50 || n > 50+12 {
		t.Errorf("%d records remain", n)
	}
	if !reflect.DeepEqual(got[len(got)-50:], story[len(story)-50:]) {
		t.Error("the last records differ")
	}
	if !reflect.DeepEqual(s.Entries(), entries) || !reflect.DeepEqual(s.Unsent(), unsent) {
		t.Errorf("entries or unsent records differ:\n%+v\n%+v", s.Entries(), entries)
	}
	if r, open := s.Breaker(); !open || r.UID != uid(2) {
		t.Errorf("the breaker is %v of %s", open, r.UID)
	}
	// A process that has the old file open continues in the new one.
	testkit.Must(t, reader.Refresh())
	if !reflect.DeepEqual(reader.Entries(), entries) {
		t.Error("a reader's entries differ after Refresh")
	}
	if next := appendTo(t, s, policy.Record{Kind: policy.KindResumed}); next[0].Seq != last[1].Seq+1 {
		t.Errorf("the next number is %d, want %d", next[0].Seq, last[1].Seq+1)
	}
	size := s.ledger.size
	testkit.Must(t, s.Close())
	before, err := os.Stat(filepath.Join(dir, ledgerFile))
	testkit.Must(t, err)
	s = open(t, dir, small)
	after, err := os.Stat(filepath.Join(dir, ledgerFile))
	testkit.Must(t, err)
	if s.ledger.size != size || !os.SameFile(before, after) {
		t.Error("a ledger whose records are all needed was compacted")
	}
}

func TestCompactWhileRunning(t *testing.T) {
	dir := memDir(t)
	s := open(t, dir, Options{CompactBytes: 50_000, KeepRecords: 20})
	appendTo(t, s, life(1, policy.KindParked)...)
	var last int64
	for i := range 1000 {
		done := appendTo(t, s, life(100+i, policy.KindRemoved)...)
		last = done[len(done)-1].Seq
		testkit.Must(t, s.Sent(last))
		if size := s.ledger.size; size > 200_000 {
			t.Fatalf("the ledger grew to %d bytes", size)
		}
	}
	testkit.Must(t, s.Close())
	s = open(t, dir, Options{})
	if e := s.Entries(); last != 6002 || s.ledger.seq != last || len(e) != 1 || e[string(uid(1))+"-1"].Phase != policy.PhaseParked {
		t.Errorf("after record %d of %d: %v", s.ledger.seq, last, e)
	}
}

func TestWriterGoesOnAfterAnotherCompacted(t *testing.T) {
	dir := memDir(t)
	a := open(t, dir, Options{})
	for i := range 100 {
		appendTo(t, a, life(i, policy.KindRemoved)...)
	}
	testkit.Must(t, a.Sent(600))
	b := open(t, dir, Options{CompactBytes: 1000, KeepRecords: 10})
	if n := len(all(t, b)); n != 10 {
		t.Fatalf("%d records remain, want 10", n)
	}
	if done := appendTo(t, a, policy.Record{Kind: policy.KindStarted}); done[0].Seq != 601 {
		t.Errorf("number %d, want 601", done[0].Seq)
	}
	testkit.Must(t, b.Refresh())
	if rs := all(t, b); len(rs) != 11 || rs[10].Seq != 601 {
		t.Error("the record was written to the removed file")
	}
}

func TestLocks(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	release, err := a.LockRun()
	testkit.Must(t, err)
	if _, err := b.LockRun(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("PID %d", os.Getpid())) {
		t.Errorf("a second daemon gets %v, want an error with the PID", err)
	}
	release()
	release, err = b.LockRun()
	testkit.Must(t, err)
	release()
	release() // a second call does nothing

	// The release function becomes garbage, and the lock is still held until Close.
	c := open(t, dir, Options{})
	_, err = c.LockRun()
	testkit.Must(t, err)
	runtime.GC()
	runtime.GC()
	if _, err := b.LockRun(); err == nil {
		t.Error("the garbage collector released the lock")
	}
	testkit.Must(t, c.Close())
	release, err = b.LockRun()
	testkit.Must(t, err)
	release()

	leave, err := a.Enter(t.Context())
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Enter(ctx); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("PID %d", os.Getpid())) {
		t.Errorf("Enter gives %v, want an error with the PID", err)
	}
	entered := make(chan int)
	go func() {
		leave, err := b.Enter(t.Context())
		if err != nil {
			t.Error(err)
			close(entered)
			return
		}
		defer leave()
		entered <- len(b.Entries())
	}()
	// Appending needs only the short lock, also while another process is inside.
	appendTo(t, b, policy.Record{Kind: policy.KindStarted})
	appendTo(t, a, life(1, policy.KindParked)...)
	leave()
	if n := <-entered; n != 1 {
		t.Errorf("%d entries after Enter, want 1", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := open(t, memDir(t), Options{})
	var wg sync.WaitGroup
	const rounds = 50
	for g := range 4 {
		wg.Go(func() {
			for i := range rounds {
				if _, err := s.Append(life(g*rounds+i, policy.KindStripped)...); err != nil {
					t.Error(err)
				}
				for _, r := range s.Unsent() {
					if err := s.Sent(r.Seq); err != nil {
						t.Error(err)
					}
				}
				var v int
				err := s.Save("holds", i)
				_, errLoad := s.Load("holds", &v)
				if err := errors.Join(err, errLoad, s.Refresh()); err != nil {
					t.Error(err)
				}
				_ = s.Entries()
			}
		})
	}
	wg.Wait()
	if n := len(s.Entries()); n != 4*rounds {
		t.Errorf("%d entries, want %d", n, 4*rounds)
	}
	if n := len(s.Unsent()); n != 0 {
		t.Errorf("%d records are unsent", n)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	testkit.Must(t, s.Close())
	if _, err := s.Append(policy.Record{Kind: policy.KindStarted}); err == nil {
		t.Error("appended after Close")
	}
	if _, err := s.Enter(t.Context()); err == nil {
		t.Error("entered after Close")
	}
}

func TestClock(t *testing.T) {
	c, err := NewClock()
	testkit.Must(t, err)
	a := c.Now()
	b := c.Now()
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(a.BootID) {
		t.Errorf("boot ID %q", a.BootID)
	}
	if d, ok := b.Since(a); !ok || d < 0 || a.Boot <= 0 {
		t.Errorf("from %v to %v: %v, %v", a.Boot, b.Boot, d, ok)
	}
	text, err := json.Marshal(a)
	testkit.Must(t, err)
	var back policy.Instant
	testkit.Must(t, json.Unmarshal(text, &back))
	if back != a {
		t.Errorf("read back %+v, want %+v", back, a)
	}
}

// TestStateRemoved checks that the daemon ends if its state directory is removed or emptied, and that a new start
// makes it again. Until then no intent can be written, so nothing is moved.
func TestStateRemoved(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"made again": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		},
		"emptied": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, ledgerFile)), os.Remove(filepath.Join(dir, actLock)), os.Remove(filepath.Join(dir, runLock)))
		},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		s := open(t, dir, Options{})
		release, err := s.LockRun()
		testkit.Must(t, err)
		defer release()
		enter := func() error {
			leave, err := s.Enter(t.Context())
			if err == nil {
				leave()
			}
			return err
		}
		testkit.Must(t, enter())
		testkit.Must(t, remove(dir))
		if err := enter(); !errors.Is(err, policy.ErrStateRemoved) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Append(policy.Record{Kind: policy.KindParking, UID: uid(1), Entry: "e1"}); err == nil {
			t.Errorf("%s: an intent was written", name)
		}
		again := open(t, dir, Options{})
		release, err = again.LockRun()
		testkit.Must(t, err)
		release()
		appendTo(t, again, policy.Record{Kind: policy.KindParking, UID: uid(1), Entry: "e1"})
	}
}
