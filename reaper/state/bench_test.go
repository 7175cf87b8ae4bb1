package state

import (
	"testing"

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
