package source

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// journalRemote returns systemd-journal-remote, which writes journal files without a journald (Debian's package of
// that name). JOURNAL_REMOTE may be another path.
func journalRemote(tb testing.TB) string {
	tb.Helper()
	for _, p := range []string{os.Getenv("JOURNAL_REMOTE"), "/usr/lib/systemd/systemd-journal-remote", "/lib/systemd/systemd-journal-remote"} {
		if _, err := os.Stat(p); p != "" && err == nil {
			if _, err := exec.LookPath("journalctl"); err == nil {
				return p
			}
		}
	}
	if os.Getenv("REQUIRE_ROOT") == "1" {
		tb.Fatal("journalctl and systemd-journal-remote are needed here")
	}
	tb.Skip("needs journalctl and systemd-journal-remote")
	return ""
}

// export makes a journal file with entries a second apart, the first at the given time.
func export(t *testing.T, remote, file string, from time.Time, entries ...string) {
	t.Helper()
	var b strings.Builder
	for i, e := range entries {
		fmt.Fprintf(&b, "__REALTIME_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n%s\n\n", from.Add(time.Duration(i)*time.Second).UnixMicro(), e)
	}
	in := file + ".export"
	testkit.Must(t, os.WriteFile(in, []byte(b.String()), 0o600))
	if out, err := exec.CommandContext(t.Context(), remote, "-o", file, in).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testkit.Must(t, os.Remove(in))
}

func kubeletEntry(unit, message string) string {
	return "_SYSTEMD_UNIT=" + unit + "\n_COMM=kubelet\n_PID=3416\nSYSLOG_IDENTIFIER=kubelet\nMESSAGE=" + message
}

// TestRealJournal runs a real journalctl on real journal files: which lines it sends, in what form, and that it
// follows and resumes.
func TestRealJournal(t *testing.T) {
	remote := journalRemote(t)
	dir := t.TempDir()
	now := time.Now()
	binary := orphan(3) + " \xff"
	export(t, remote, filepath.Join(dir, "a.journal"), now.Add(-30*time.Minute),
		kubeletEntry("kubelet.service", orphan(1)),
		kubeletEntry("session-1.scope", orphan(90)), // logger -t kubelet
		kubeletEntry("kubelet.service", "SyncLoop (housekeeping)"),
		kubeletEntry("k3s.service", orphan(2)),
		kubeletEntry("kubelet.service", binary),
		kubeletEntry("kubelet.service", orphan(4)+strings.Repeat(" long", 40_000)),
		kubeletEntry("kubelet.service", `E0331 15:47:45.892216    3416 nestedpendingoperations.go:301] Operation for "x" failed. Error: UnmountVolume.TearDown failed for volume "y"`),
		kubeletEntry("kubelet.service", `I0331 15:47:45.892216    3416 operation_generator.go:1] UnmountVolume.TearDown succeeded for volume "y"`),
		kubeletEntry("kubelet.service", `E0331 15:47:45.892216    3416 nestedpendingoperations.go:301] Operation for "x" failed. Error: UnmapVolume.UnmapBlockVolume failed for volume "y"`),
	)
	for _, noGrep := range []bool{false, true} {
		t.Run(fmt.Sprint(noGrep), func(t *testing.T) {
			j := NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Args: []string{"--directory=" + dir}})
			j.noGrep = noGrep
			f := start(t, j, Position{})
			f.sees(1, 2)
			f.until("the last one", func(texts []string) bool {
				return count(texts, binary) == 1 && strings.Contains(strings.Join(texts, ""), "UnmapVolume.UnmapBlockVolume")
			})
			f.seesNot(90)
			f.mu.Lock()
			for _, l := range f.got {
				if l.Journal.PID != 3416 || l.Journal.Comm != "kubelet" || l.Journal.Time.IsZero() || !l.CatchUp {
					t.Errorf("%+v: %.80q", l.Journal, l.Text)
				}
				if len(l.Text) > maxText {
					t.Errorf("text of %d bytes", len(l.Text))
				}
			}
			f.mu.Unlock()
			if p := f.stop(); p.Cursor == "" || p.Hit.IsZero() {
				t.Errorf("position %+v", p)
			}
		})
	}
	t.Run("follow and resume", func(t *testing.T) {
		dir := t.TempDir()
		export(t, remote, filepath.Join(dir, "a.journal"), now.Add(-20*time.Minute), kubeletEntry("kubelet.service", orphan(1)))
		fresh := func() *Journal {
			return NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Args: []string{"--directory=" + dir}})
		}
		f := start(t, fresh(), Position{})
		f.sees(1)
		p := f.stop()
		// Written while no source follows, before the last ten minutes and after the cursor.
		p.Alive = now.Add(-20 * time.Minute)
		export(t, remote, filepath.Join(dir, "b.journal"), now.Add(-15*time.Minute), kubeletEntry("kubelet.service", orphan(2)))
		f = start(t, fresh(), p)
		f.sees(2)
		waitFollowing(t, f.src)
		export(t, remote, filepath.Join(dir, "c.journal"), now.Add(time.Second), kubeletEntry("kubelet.service", orphan(3)))
		f.sees(2, 3)
		f.seesNot(1)
		p = f.stop()
		// An invalid cursor is no reason to stop.
		p.Cursor = "s=zz"
		f = start(t, fresh(), p)
		waitFollowing(t, f.src)
	})
}

func waitFollowing(t *testing.T, src Source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !src.State().Reached {
		if ctx.Err() != nil {
			t.Fatal("the source does not follow")
		}
		time.Sleep(time.Millisecond)
	}
}
