package procfs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestEachProcess checks that the children of a process that ended before it was read are found, although they were
// not in the listing: they may have inherited its files.
func TestEachProcess(t *testing.T) {
	dir := testkit.ProcMounts(t, map[string]string{"1": "", "5": "", "self": ""})
	stranger := func(pid int) {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(pid)), 0o755))
		testkit.Must(t, os.Chown(filepath.Join(dir, strconv.Itoa(pid)), 65534, 65534))
	}
	start := func(pid int) { testkit.Must(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(pid)), 0o755)) }
	proc, err := Open(dir)
	testkit.Must(t, err)
	defer beneath.Close(proc)
	cases := map[string]struct {
		do   func(pid int) (ended bool)
		seen string
		err  error
	}{
		"all are there":             {func(int) bool { return false }, "1 5", nil},
		"one starts meanwhile":      {func(int) bool { start(6); return false }, "1 5 6", nil},
		"a child of one that ended": {func(pid int) bool { start(min(pid+1, 9)); return pid < 8 }, "1 5 2 6 3 7 4 8 9", nil},
		"a stranger's chain":        {func(pid int) bool { stranger(pid + 1); return true }, "1 5 6 7 8", nil},
		"a pod's chain": {func(pid int) bool {
			start(pid + 1)
			testkit.WriteText(t, filepath.Join(dir, strconv.Itoa(pid+1), "cgroup"), "0::/kubepods/pod"+string(testkit.NewUID())+"\n")
			return true
		}, "1 5 6 7 8", nil},
		"each has ended, for ever":   {func(pid int) bool { start(pid + 1); return true }, "", ErrChurn},
		"an ended one and no others": {func(int) bool { return true }, "1 5", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if name == "a stranger's chain" {
				testkit.NeedUsers(t)
			}
			var seen []string
			count, err := each(t.Context(), dir, proc, func(pid string) bool {
				seen = append(seen, pid)
				i, err := strconv.Atoi(pid)
				testkit.Must(t, err)
				return c.do(i)
			}, func() bool { return false })
			if !errors.Is(err, c.err) || (c.err == nil && err != nil) || count != len(seen) {
				t.Errorf("%d processes and %v, want %v", count, err, c.err)
			}
			for pid := range strings.FieldsSeq(c.seen) {
				if !strings.Contains(" "+strings.Join(seen, " ")+" ", " "+pid+" ") {
					t.Errorf("PID %s was not read: %s", pid, seen)
				}
			}
			for pid := range 200 {
				if pid != 1 && pid != 5 {
					_ = os.RemoveAll(filepath.Join(dir, strconv.Itoa(pid)))
				}
			}
		})
	}
}

// TestNumbersBeginAnew checks that a chain of processes that one listing misses, because PIDs wrap around, is found
// by the next.
func TestNumbersBeginAnew(t *testing.T) {
	dir := testkit.ProcMounts(t, map[string]string{"1": "", "self": ""})
	proc, err := Open(dir)
	testkit.Must(t, err)
	defer beneath.Close(proc)
	var seen []string
	_, err = each(t.Context(), dir, proc, func(pid string) bool { seen = append(seen, pid); return false }, func() bool {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, "2"), 0o755)) // the listing has passed that number
		return false
	})
	if testkit.Must(t, err); len(seen) != 2 {
		t.Errorf("read: %s", seen)
	}
}

// TestEnded checks that EACCES from a link of a process that was reaped meanwhile, or has no program any more, counts as
// ended.
func TestEnded(t *testing.T) {
	dir := testkit.ProcMounts(t, map[string]string{"1": "", "7": ""})
	testkit.Must(t, os.Symlink("/bin/sh", dir+"/1/exe"))
	proc, err := Open(dir)
	testkit.Must(t, err)
	defer beneath.Close(proc)
	for _, c := range []struct {
		pid  string
		err  error
		want bool
	}{{"1", unix.EACCES, false}, {"0", unix.EACCES, true}, {"0", unix.EPERM, false}, {"7", unix.EACCES, true}} {
		if Ended(proc, c.pid, c.err) != c.want {
			t.Errorf("PID %s with %v: not %v", c.pid, c.err, c.want)
		}
	}
}

// TestPassedOver checks that root's processes are awaited in each listing, and unseen ended ones in most.
func TestPassedOver(t *testing.T) {
	dir := testkit.ProcMounts(t, map[string]string{"1": "", "3": ""})
	testkit.WriteText(t, dir+"/3/status", "Name:\tsu\nUid:\t1000\t0\t0\t0\nx\n")
	proc, err := Open(dir)
	testkit.Must(t, err)
	defer beneath.Close(proc)
	for listing, unseen := range map[int]bool{theirListings - 1: false, theirListings: false, unknownListings: true, mostListings - 1: true} {
		got := passedOver(dir, proc, []string{"1", "2", "3"}, listing)
		if got["1"] || got["2"] != unseen || os.Geteuid() == 0 && got["3"] != (listing >= theirListings) {
			t.Errorf("listing %d skips %v", listing, got)
		}
	}
}
