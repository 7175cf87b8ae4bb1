package remove

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// BenchmarkArchive archives batches of 4,096 cache files of 1.5 KiB with their sync.
func BenchmarkArchive(b *testing.B) {
	dir := b.TempDir()
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s := ArchiveStore{store}
	files := cniFiles(4096)
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	before := used.Utime.Nano() + used.Stime.Nano()
	n := 0
	for b.Loop() {
		n++
		if err := s.Archive(fmt.Sprint("cni-", n), files); err != nil {
			b.Fatal(err)
		}
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	list, err := s.Archives()
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(state.ArchivePath(dir, list[0].Name))
	if err != nil {
		b.Fatal(err)
	}
	per := float64(n * len(files))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/per, "ns/file")
	b.ReportMetric(float64(used.Utime.Nano()+used.Stime.Nano()-before)/per, "cpu-ns/file")
	b.ReportMetric(float64(info.Size())/float64(len(files)), "bytes/file")
	b.ReportMetric(float64(list[0].Bytes)/float64(len(files)), "bytes-of-content/file")
}
