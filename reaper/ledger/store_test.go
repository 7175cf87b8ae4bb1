package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
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

// TestOneQuarantine: while a pod is in one quarantine, another one is refused. In another one it would be missed, counted as
// removed by somebody else, and forgotten with all that is in it.
func TestOneQuarantine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{Quarantine: "/a"})
	appendTo(t, s, life(1, judge.EventQuarantined)...)
	entry := appendTo(t, s, judge.Event{Kind: judge.EventMoving, UID: uid(2), Entry: "two"})[0]
	testkit.Must(t, s.Close())
	refused := func(quarantine string) bool {
		t.Helper()
		opened, err := Open(dir, Options{Quarantine: quarantine})
		if err == nil {
			testkit.Must(t, opened.Close())
		}
		read, errRead := OpenReadOnly(dir, Options{Quarantine: quarantine})
		if errRead == nil {
			testkit.Must(t, read.Close())
		}
		if (err == nil) != (errRead == nil) {
			t.Errorf("%s: %v, to read: %v", quarantine, err, errRead)
		}
		return err != nil
	}
	if entry.Quarantine != "/a" || refused("/a") || !refused("/b") {
		t.Errorf("%+v", entry)
	}
	s = open(t, dir, Options{Quarantine: "/a"})
	for name, e := range s.Entries() {
		// An exchange: the pod's other directory is in quarantine now.
		appendTo(t, s, judge.Event{Kind: judge.EventRestored, UID: e.UID, Entry: name, Other: name + "-other"})
	}
	if !refused("/b") {
		t.Error("the directories that were exchanged are in /a")
	}
	for name, e := range s.Entries() {
		appendTo(t, s, judge.Event{Kind: judge.EventRemoved, UID: e.UID, Entry: name})
	}
	if refused("/b") {
		t.Error("nothing is in /a")
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Options{})
	appendTo(t, w, life(1, judge.EventQuarantined)...)
	testkit.Must(t, w.Close())
	before := snapshot(t, dir)

	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	defer func() { _ = s.Close() }()
	if len(s.Entries()) != 1 || len(s.Unsent()) != 1 {
		t.Errorf("%d entries and %d unsent records, want 1 and 1", len(s.Entries()), len(s.Unsent()))
	}
	_, errAppend := s.Append(judge.Event{Kind: judge.EventStarted})
	_, errRun := s.LockRun(Runner{})
	_, errEnter := s.Enter(t.Context())
	for _, err := range []error{errAppend, errRun, errEnter, s.Sent(1)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("error %v, want ErrReadOnly", err)
		}
	}
	if after := snapshot(t, dir); !reflect.DeepEqual(before, after) {
		t.Errorf("the directory was changed: %v, before %v", after, before)
	}
	// A read-only store reads later records.
	w = open(t, dir, Options{})
	appendTo(t, w, life(2, judge.EventQuarantined)...)
	testkit.Must(t, s.Refresh())
	if len(s.Entries()) != 2 {
		t.Errorf("%d entries after Refresh, want 2", len(s.Entries()))
	}
}

func TestReadOnlyWithoutADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	if len(s.Entries()) != 0 || len(s.Unsent()) != 0 || len(all(t, s)) != 0 {
		t.Error("an absent directory is not empty")
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
	appendTo(t, w, life(1, judge.EventQuarantined)...)

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

func TestSent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	rs := appendTo(t, s, life(1, judge.EventRemoved)...)
	kinds := func(s *Store) (k []judge.EventKind) {
		for _, r := range s.Unsent() {
			k = append(k, r.Kind)
		}
		return k
	}
	if got := kinds(s); !reflect.DeepEqual(got, []judge.EventKind{judge.EventQuarantined, judge.EventCleaned, judge.EventRemoved}) {
		t.Fatalf("unsent: %v", got)
	}
	if got := s.Unsent()[1]; !reflect.DeepEqual(got, rs[3]) {
		t.Errorf("an unsent record is\n%+v\nwant\n%+v", got, rs[3])
	}
	testkit.Must(t, s.Sent(rs[1].Seq))
	testkit.Must(t, s.Sent(1)) // an older number has no effect
	want := []judge.EventKind{judge.EventCleaned, judge.EventRemoved}
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
	rs = appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	testkit.Must(t, other.Refresh())
	testkit.Must(t, s.Sent(rs[0].Seq)) // and nothing is appended after it
	testkit.Must(t, other.Refresh())
	if got := kinds(other); got != nil {
		t.Errorf("another process would send again what was sent after its last look: %v", got)
	}
	if err := s.Sent(99); err == nil {
		t.Error("a nonexistent record was accepted as sent")
	}
	writeFile(t, nil, dir, sentFile) // a living pod is restored none the less
	testkit.Must(t, other.Refresh())
	if got := kinds(other); got != nil {
		t.Errorf("a marker that became damaged made events unsent: %v", got)
	}
	testkit.Must(t, errors.Join(s.Close(), other.Close()))

	// With the damaged marker everything is unsent again; without the ledger the numbers continue.
	s = open(t, dir, Options{})
	if got := kinds(s); len(got) != 4 {
		t.Errorf("unsent after the marker was lost: %v", got)
	}
	testkit.Must(t, s.Sent(7))
	testkit.Must(t, errors.Join(s.Close(), os.Remove(filepath.Join(dir, ledgerFile))))
	s = open(t, dir, Options{})
	if got := appendTo(t, s, judge.Event{Kind: judge.EventStarted}); got[0].Seq != 8 || len(s.Unsent()) != 1 {
		t.Errorf("a new ledger begins at number %d, and %d records are unsent; want 8 and 1", got[0].Seq, len(s.Unsent()))
	}
}

func TestCompact(t *testing.T) {
	dir := memDir(t)
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventBreaker, UID: uid(0)})
	appendTo(t, s, life(1, judge.EventCleaned)...)
	appendTo(t, s, judge.Event{Kind: judge.EventResumed}, judge.Event{Kind: judge.EventBreaker, UID: uid(2)})
	appendTo(t, s, judge.Event{Kind: judge.EventCNIRemoving, UID: uid(3), Entry: "three"}, judge.Event{Kind: judge.EventRestored, UID: uid(3), Entry: "three"})
	for _, kind := range []judge.EventKind{judge.EventCNIRemoving, judge.EventRestored, judge.EventReleased} {
		appendTo(t, s, judge.Event{Kind: kind, UID: uid(4), Entry: "four", Operator: true})
	}
	for i := range 300 {
		appendTo(t, s, life(100+i, judge.EventRemoved)...)
	}
	last := appendTo(t, s, life(9999, judge.EventQuarantined)...)
	unsentFrom := last[0].Seq - 31
	testkit.Must(t, s.Sent(unsentFrom))
	unsent, entries, restored, story := s.Unsent(), s.Entries(), s.Restored(), all(t, s)
	testkit.Must(t, s.Close())
	reader, err := OpenReadOnly(dir, Options{})
	testkit.Must(t, err)
	defer func() { _ = reader.Close() }()

	if len(restored) != 1 || restored[uid(3)].Times != 1 {
		t.Errorf("restored pods: %v", restored)
	}

	// A killed compaction's files are harmless.
	writeFile(t, bytes.Repeat([]byte("half a ledger\n"), 100_000), dir, ledgerFile+".tmp")
	small := Options{CompactBytes: 1000, KeepEvents: 50}
	s = open(t, dir, small)
	got := all(t, s)
	if n := len(got); n < 50 || n > 50+12 {
		t.Errorf("%d records remain", n)
	}
	if !reflect.DeepEqual(got[len(got)-50:], story[len(story)-50:]) {
		t.Error("the last records differ")
	}
	if !reflect.DeepEqual(s.Entries(), entries) || !reflect.DeepEqual(s.Restored(), restored) || !reflect.DeepEqual(s.Unsent(), unsent) {
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
	if next := appendTo(t, s, judge.Event{Kind: judge.EventResumed}); next[0].Seq != last[1].Seq+1 {
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
	s := open(t, dir, Options{CompactBytes: 50_000, KeepEvents: 20})
	appendTo(t, s, life(1, judge.EventQuarantined)...)
	var last int64
	for i := range 1000 {
		done := appendTo(t, s, life(100+i, judge.EventRemoved)...)
		last = done[len(done)-1].Seq
		testkit.Must(t, s.Sent(last))
		if size := s.ledger.size; size > 200_000 {
			t.Fatalf("the ledger grew to %d bytes", size)
		}
	}
	testkit.Must(t, s.Close())
	s = open(t, dir, Options{})
	if e := s.Entries(); last != 6002 || s.ledger.seq != last || len(e) != 1 || e[string(uid(1))+"-1"].Phase != judge.Quarantined {
		t.Errorf("after record %d of %d: %v", s.ledger.seq, last, e)
	}
}

func TestWriterGoesOnAfterAnotherCompacted(t *testing.T) {
	dir := memDir(t)
	a := open(t, dir, Options{})
	for i := range 100 {
		appendTo(t, a, life(i, judge.EventRemoved)...)
	}
	testkit.Must(t, a.Sent(600))
	b := open(t, dir, Options{CompactBytes: 1000, KeepEvents: 10})
	if n := len(all(t, b)); n != 10 {
		t.Fatalf("%d records remain, want 10", n)
	}
	if done := appendTo(t, a, judge.Event{Kind: judge.EventStarted}); done[0].Seq != 601 {
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
	release, err := a.LockRun(Runner{})
	testkit.Must(t, err)
	if _, err := b.LockRun(Runner{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("PID %d", os.Getpid())) {
		t.Errorf("a second daemon gets %v, want an error with the PID", err)
	}
	release()
	release, err = b.LockRun(Runner{})
	testkit.Must(t, err)
	release()
	release() // a second call does nothing

	// The release function becomes garbage, and the lock is still held until Close.
	c := open(t, dir, Options{})
	_, err = c.LockRun(Runner{})
	testkit.Must(t, err)
	runtime.GC()
	runtime.GC()
	if _, err := b.LockRun(Runner{}); err == nil {
		t.Error("the garbage collector released the lock")
	}
	testkit.Must(t, c.Close())
	release, err = b.LockRun(Runner{})
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
	appendTo(t, b, judge.Event{Kind: judge.EventStarted})
	appendTo(t, a, life(1, judge.EventQuarantined)...)
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
				if _, err := s.Append(life(g*rounds+i, judge.EventCleaned)...); err != nil {
					t.Error(err)
				}
				for _, r := range s.Unsent() {
					if err := s.Sent(r.Seq); err != nil {
						t.Error(err)
					}
				}
				if err := s.Refresh(); err != nil {
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
	if _, err := s.Append(judge.Event{Kind: judge.EventStarted}); err == nil {
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
	var back judge.Instant
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
		release, err := s.LockRun(Runner{})
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
		if err := enter(); !errors.Is(err, ErrRemoved) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Append(judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1"}); err == nil {
			t.Errorf("%s: an intent was written", name)
		}
		again := open(t, dir, Options{})
		release, err = again.LockRun(Runner{})
		testkit.Must(t, err)
		release()
		appendTo(t, again, judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1"})
	}
}

// noting is a directory that notes the syncs and renames in it.
type noting struct {
	Dir
	calls *[]string
}

func (n noting) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := n.Dir.OpenFile(name, flag, perm)
	return notingFile{f, name, n.calls}, err
}

func (n noting) Rename(from, to string) error {
	*n.calls = append(*n.calls, "rename "+to)
	return n.Dir.Rename(from, to)
}

type notingFile struct {
	File
	name  string
	calls *[]string
}

func (f notingFile) Sync() error {
	*f.calls = append(*f.calls, "sync "+f.name)
	return f.File.Sync()
}

// TestReplace: the content is on disk before the rename, and the name after it. Events that follow a compaction are in the new
// file alone.
func TestReplace(t *testing.T) {
	root, err := os.OpenRoot(memDir(t))
	testkit.Must(t, err)
	var calls []string
	s, err := OpenIn(noting{disk{root}, &calls}, Options{})
	testkit.Must(t, err)
	defer func() { _ = s.Close() }()
	calls = nil
	testkit.Must(t, s.writeFile("x", []byte("text")))
	if want := []string{"sync x.tmp", "rename x", "sync ."}; !slices.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}
