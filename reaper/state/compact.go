package state

import (
	"bufio"
	"fmt"
	"log/slog"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// compactIfLarge drops old records where the ledger has outgrown its limit, and sets the
// next one, so that a ledger that is large for good reason is not read at every append.
func (s *Store) compactIfLarge() error {
	if s.ledger.size <= s.compactAt {
		return nil
	}
	err := s.compact()
	s.compactAt = max(s.opts.CompactBytes, 2*s.ledger.size)
	return err
}

// compact writes the ledger anew without the old records that nothing needs: those that
// the journal has got, whose entry is gone, and that are not among the last KeepRecords.
// All records of an entry that is in quarantine or was restored stay, as do the last word
// on the breaker, so what is folded from the rest is the same. What was done by day is kept apart
// first. The caller holds the append lock; other processes notice the new file at their next append.
func (s *Store) compact() error {
	keep, bytes, err := s.kept()
	if err != nil {
		return err
	}
	// A ledger that is large because much of it is needed is not written at every start.
	if bytes > s.ledger.size/4*3 {
		return nil
	}
	if err := s.sent.Sync(); err != nil {
		return fmt.Errorf("cannot sync the marker of sent records: %w", err)
	}
	if err := s.saveDays(); err != nil {
		return err
	}
	before := s.ledger.size
	err = s.replace(ledgerFile, func(f File) error {
		w := bufio.NewWriterSize(f, 256<<10)
		i := 0
		for line, err := range lines(s.ledger.file, 0, before) {
			if err != nil {
				return err
			}
			if keep[i] {
				if _, err := w.Write(line); err != nil {
					return err
				}
			}
			i++
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.log.Info("old records were dropped from the ledger",
		slog.Int64("bytes_before", before), slog.Int64("bytes_after", s.ledger.size))
	return nil
}

// kept says for each line whether it stays, and how many bytes do.
func (s *Store) kept() (keep []bool, bytes int64, err error) {
	l := &s.ledger
	keep = make([]bool, 0, l.lines)
	for line, err := range lines(l.file, 0, l.size) {
		var r policy.Record
		if err == nil {
			r, err = decode(line)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		needed := len(keep) >= l.lines-s.opts.KeepRecords || r.Seq > l.sent ||
			l.entries[r.Entry] != nil || r.Seq == l.breaker.Seq || r.Seq == l.resumed
		if needed {
			bytes += int64(len(line))
		}
		keep = append(keep, needed)
	}
	return keep, bytes, nil
}
