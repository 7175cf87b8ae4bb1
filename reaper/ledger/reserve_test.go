package ledger

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// smallDisk returns a state directory on a disk of 32 MiB.
func smallDisk(t *testing.T) string { t.Helper(); return diskOf(t, "size=32m,mode=0700") }

func diskOf(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// reserved returns the number of bytes that the reserve occupies on the disk.
func reserved(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, reserveFile), &st); err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestReserve checks that with no free block each batch of intents is still written, by releasing a slice of the
// reserve, and that nothing else uses it. Once there is room, and not before, the reserve is made again.
func TestReserve(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := smallDisk(t)
	s := open(t, dir, Options{})
	check := func(when string, want int64) {
		t.Helper()
		if got := reserved(t, dir); got != want {
			t.Errorf("%s the reserve has %d bytes, want %d", when, got, want)
		}
	}
	appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	check("before the first record", reserveSize)
	big := strings.Repeat("x", 64<<10)
	note, intent := judge.Event{Kind: judge.EventKept, Err: big}, judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1", Err: big}
	appendTo(t, s, note)
	check("with room", reserveSize)
	appendTo(t, s, intent)
	check("after an intent, with room,", reserveSize)
	fill(t, dir)
	if _, err := s.Append(note); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a record other than an intent gave %v", err)
	}
	check("before an intent", reserveSize)
	for left := int64(reserveSize); left > 0; {
		left -= reserveSlice
		appendTo(t, s, intent)
		check("after an intent", left)
		fill(t, dir) // by another process
	}
	if _, err := s.Append(intent); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without a reserve: %v", err)
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "filled")))
	var last []judge.Event
	for range 40 {
		last = appendTo(t, s, note)
	}
	check("with room again", reserveSize)
	fill(t, dir)
	appendTo(t, s, judge.Event{Kind: judge.EventQuarantined, UID: uid(1), Entry: "e1", Err: big})
	check("after how an intent ended", reserveSize-reserveSlice)
	testkit.Must(t, s.Sent(last[0].Seq))
	testkit.Must(t, s.Close())
	fill(t, dir)
	s, err := Open(dir, Options{CompactBytes: 1000, KeepEvents: 1}) // forces a compaction
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
}

// TestReserveWithoutInodes checks that a lack of inodes releases no part of the reserve, since blocks would not help.
func TestReserveWithoutInodes(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := diskOf(t, "size=32m,mode=0700,nr_inodes=64")
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	for n := 0; ; n++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", n)), nil, 0o600); err != nil {
			break
		}
	}
	appendTo(t, s, judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1"})
	if got := reserved(t, dir); got != reserveSize {
		t.Errorf("the reserve has %d bytes, want %d", got, reserveSize)
	}
}

// fill writes to a file until the disk has no free block.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filled"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	testkit.Must(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	testkit.Must(t, f.Close())
}

// TestReserveOnFullExt: ext4 reports 16 MiB as free, also to root, that no process can allocate. The reserve is still
// released slice by slice, and a reserve that cannot be refilled keeps its size.
func TestReserveOnFullExt(t *testing.T) {
	testkit.NeedRoot(t)
	if !testkit.InNamespace(t) {
		return
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	testkit.Must(t, os.WriteFile(image, nil, 0o600))
	testkit.Must(t, os.Truncate(image, 256<<20))
	if out, err := exec.CommandContext(t.Context(), testkit.NeedCommand(t, "mkfs.ext4"), "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	testkit.Must(t, unix.Mount(testkit.Loop(t, image), dir, "ext4", 0, ""))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	testkit.Must(t, os.Chmod(dir, 0o700))
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	fill(t, dir)
	var disk unix.Statfs_t
	testkit.Must(t, unix.Statfs(dir, &disk))
	if disk.Bfree*uint64(disk.Bsize) < reserveSlice {
		t.Fatalf("%d blocks are free: the test proves nothing", disk.Bfree)
	}
	before := reserved(t, dir)
	for range 5 {
		appendTo(t, s, judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1", Err: strings.Repeat("x", 64<<10)})
		fill(t, dir)
		left := reserved(t, dir)
		if left < before-2*reserveSlice || left >= before || left == 0 {
			t.Fatalf("the reserve has %d bytes after an intent, and had %d before", left, before)
		}
		before = left
	}
}

// TestReserveForMuch checks that a batch larger than one slice gets several: the record has the only copy of a
// removed vol_data.json.
func TestReserveForMuch(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := smallDisk(t)
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	fill(t, dir)
	var ended []judge.Event
	for i := range 256 {
		data := map[string]string{"volumes/kubernetes.io~csi/pvc-1/vol_data.json": strings.Repeat("x", 2000)}
		ended = append(ended, judge.Event{Kind: judge.EventCleaned, UID: uid(i), Entry: string(uid(i)) + ".1", VolData: data})
	}
	appendTo(t, s, ended...)
	if left := reserved(t, dir); left == 0 || left >= reserveSize-reserveSlice {
		t.Errorf("the reserve has %d bytes left", left)
	}
}

// TestReserveForTornLine checks that a torn line is kept beside the ledger also on a full disk. Otherwise no program
// could start.
func TestReserveForTornLine(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := smallDisk(t)
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventMoving, UID: uid(1), Entry: "e1"})
	testkit.Must(t, s.Close())
	fill(t, dir)
	f, err := os.OpenFile(filepath.Join(dir, ledgerFile), os.O_WRONLY|os.O_APPEND, 0) // there is room in its last block
	testkit.Must(t, err)
	_, err = f.WriteString(`{"seq":2,"kind":"quarantined"`)
	testkit.Must(t, errors.Join(err, f.Close()))
	s = open(t, dir, Options{})
	if _, err := os.Stat(filepath.Join(dir, "ledger.torn-1")); err != nil || len(s.Entries()) != 1 {
		t.Errorf("%d entries, %v", len(s.Entries()), err)
	}
}

// TestReserveRefillFails checks that a reserve that cannot be refilled keeps its size.
func TestReserveRefillFails(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := smallDisk(t)
	s := open(t, dir, Options{})
	appendTo(t, s, judge.Event{Kind: judge.EventStarted})
	if !s.releaseSlice() {
		t.Fatal("no slice was released")
	}
	var was unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: reserveSize - 1, Max: was.Max})) // as a quota would
	s.keepReserve()
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was))
	if left := reserved(t, dir); left != reserveSize-reserveSlice {
		t.Errorf("the reserve has %d bytes after a failed refill", left)
	}
	s.keepReserve()
	if left := reserved(t, dir); left != reserveSize {
		t.Errorf("the reserve has %d bytes after a refill", left)
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, reserveFile)))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, reserveFile), nil, 0o600))
	testkit.Must(t, os.Truncate(filepath.Join(dir, reserveFile), reserveSize)) // as copying tools make it
	if s.keepReserve(); reserved(t, dir) != reserveSize {
		t.Errorf("the reserve has %d bytes, from a file with holes", reserved(t, dir))
	}
}
