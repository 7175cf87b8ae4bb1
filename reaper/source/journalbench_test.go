package source

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// BenchmarkCatchUpJournal reads a journal with a million entries of the kubelet, one in a thousand about an orphan,
// from the start of the source to the last such entry. Alternating with it, journalctl --grep searches the same
// journal for the same pattern: in kubelet.service, as an operator would, and in all units that a kubelet may have,
// as the source does.
func BenchmarkCatchUpJournal(b *testing.B) {
	remote := journalRemote(b)
	dir := b.TempDir()
	last := writeJournal(b, remote, filepath.Join(dir, "a.journal"), testkit.Size(1_000_000, 20_000))
	var ours, one, same []float64
	var j *Journal
	us := func() {
		begin := time.Now()
		j = NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Args: []string{"--directory=" + dir}})
		ctx, cancel := context.WithCancel(b.Context())
		lines, done := make(chan parsers.Line), make(chan error, 1)
		go func() { done <- j.Run(ctx, Position{}, lines) }()
		for l := range lines {
			if string(l.Text) == last {
				break
			}
		}
		ours = append(ours, time.Since(begin).Seconds())
		cancel()
		testkit.Must(b, <-done)
	}
	they := func(took *[]float64, matches ...string) {
		begin := time.Now()
		args := append([]string{"--directory=" + dir, "--no-pager", "--quiet", "--case-sensitive=yes", "--grep=" + pattern}, matches...)
		out, err := exec.CommandContext(b.Context(), "journalctl", args...).Output()
		if err != nil || len(out) == 0 {
			b.Fatal("journalctl finds nothing: ", err)
		}
		*took = append(*took, time.Since(begin).Seconds())
	}
	for range b.N * testkit.Size(5, 3) {
		us()
		they(&one, "_SYSTEMD_UNIT=kubelet.service")
		they(&same, j.matches...)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testkit.Median(ours), "s")
	b.ReportMetric(testkit.Median(one), "journalctl-s")
	b.ReportMetric(testkit.Median(ours)/testkit.Median(one), "ratio-to-journalctl")
	b.ReportMetric(testkit.Median(ours)/testkit.Median(same), "ratio-to-same-units")
}

// writeJournal writes a journal of the last hour and returns its last entry's text.
func writeJournal(b *testing.B, remote, file string, entries int) (last string) {
	b.Helper()
	in, err := os.Create(file + ".export")
	testkit.Must(b, err)
	w := bufio.NewWriter(in)
	from := time.Now().Add(-time.Hour)
	for i := range entries {
		text := junk[:len(junk)-1]
		if i%1000 == 999 {
			text = orphan(i)
			last = text
		}
		at := from.Add(time.Hour / time.Duration(entries) * time.Duration(i))
		_, _ = fmt.Fprintf(w, "__REALTIME_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n%s\n\n",
			at.UnixMicro(), kubeletEntry("kubelet.service", text))
	}
	testkit.Must(b, w.Flush())
	testkit.Must(b, in.Close())
	out, err := exec.CommandContext(b.Context(), remote, "-o", file, in.Name()).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	testkit.Must(b, os.Remove(in.Name()))
	return last
}
