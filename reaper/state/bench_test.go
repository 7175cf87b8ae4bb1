package state

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// BenchmarkAppend writes what 2,044 orphans leave in the ledger while they are parked and
// removed: an intent and an outcome for each of the two steps, in batches of 256.
func BenchmarkAppend(b *testing.B) {
	var batch [4][]policy.Record
	for i := range policy.BatchSize {
		rs := life(i, policy.KindStripped)
		for k := range batch {
			batch[k] = append(batch[k], rs[k])
		}
	}
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for b.Loop() {
		for range 8 {
			for _, rs := range batch {
				if _, err := s.Append(rs...); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := s.Sent(s.ledger.seq); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(8192, "records/op")
}

// BenchmarkOpen reads the 10,000 records that are always kept.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 2000 {
		if _, err := s.Append(life(i%256, policy.KindRemoved)[:5]...); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(s.ledger.size)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkArchive archives batches of 4,096 cache files of 1.5 KiB with their sync.
func BenchmarkArchive(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
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
	per := float64(n * len(files))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/per, "ns/file")
	b.ReportMetric(float64(used.Utime.Nano()+used.Stime.Nano()-before)/per, "cpu-ns/file")
	b.ReportMetric(float64(list[0].Size)/float64(len(files)), "bytes/file")
	b.ReportMetric(float64(list[0].Bytes)/float64(len(files)), "bytes-of-content/file")
}
