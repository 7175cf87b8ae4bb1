package source

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nxadm/tail"
	tailwatch "github.com/nxadm/tail/watch"
	"gopkg.in/tomb.v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestTailWatchEndsTheProcess keeps the reason proven why nxadm/tail's watch package is
// not used: a path that can no longer be stat'ed ends the process. The test is in a
// process of its own.
func TestTailWatchEndsTheProcess(t *testing.T) {
	if dir := os.Getenv("SOURCE_WATCH_DIR"); dir != "" {
		watchUntilFatal(t, dir)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTailWatchEndsTheProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "SOURCE_WATCH_DIR="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "FATAL -- Failed to stat file") {
		t.Errorf("nxadm/tail no longer ends the process, so that its watch could be used again: %v\n%s", err, out)
	}
}

func watchUntilFatal(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "messages")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, path)
	var tm tomb.Tomb
	if _, err := tailwatch.NewInotifyFileWatcher(path).ChangeEvents(&tm, 0); err != nil {
		t.Fatal(err)
	}
	rename(t, dir, dir+".away")
	open(t, dir).raw("now a file\n")
	w.orphans(1)
	time.Sleep(patience)
}

// BenchmarkCatchUp reads the same log with the follower and with nxadm/tail, in turns, and
// prints by how much the follower is faster.
func BenchmarkCatchUp(b *testing.B) {
	const size = 64 << 20
	path := filepath.Join(b.TempDir(), "messages")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(out)
	for n, left := 0, size; left > 0; n++ {
		line := junk
		if n%1000 == 999 {
			line = orphan(n) + "\n"
		}
		left -= len(line)
		_, _ = w.WriteString(line)
	}
	last := orphan(1 << 20)
	_, _ = w.WriteString(last + "\n")
	if err := errors.Join(w.Flush(), out.Close()); err != nil {
		b.Fatal(err)
	}
	var ours, theirs time.Duration
	for b.Loop() {
		begun := time.Now()
		catchUp(b, path, last)
		ours += time.Since(begun)
		begun = time.Now()
		tailUp(b, path, last)
		theirs += time.Since(begun)
	}
	b.ReportMetric(size/1e6*float64(b.N)/ours.Seconds(), "MB/s")
	b.ReportMetric(size/1e6*float64(b.N)/theirs.Seconds(), "nxadm-MB/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "times-nxadm")
	b.ReportMetric(0, "ns/op")
}

func catchUp(b *testing.B, path, last string) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	lines, done := make(chan parsers.Line), make(chan error, 1)
	go func() { done <- newFile(path).Run(ctx, Position{}, lines) }()
	for l := range lines {
		if string(l.Text) == last {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func tailUp(b *testing.B, path, last string) {
	b.Helper()
	tl, err := tail.TailFile(path, tail.Config{Follow: true, ReOpen: true, CompleteLines: true, Logger: tail.DiscardingLogger})
	if err != nil {
		b.Fatal(err)
	}
	for l := range tl.Lines {
		if parsers.Interesting([]byte(l.Text)) && l.Text == last {
			break
		}
	}
	tl.Kill(nil)
	go func() {
		for range tl.Lines { // What it still has is thrown away, so that it ends.
		}
	}()
	_ = tl.Wait()
}
