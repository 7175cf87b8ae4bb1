package ledger

import (
	"bufio"
	"fmt"
	"log/slog"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// compactIfLarge drops old events if the ledger is larger than compactAt, and sets the next limit.
func (s *Store) compactIfLarge() error {
	if s.ledger.size <= s.compactAt {
		return nil
	}
	err := s.compact()
	s.compactAt = max(s.opts.CompactBytes, 2*s.ledger.size)
	return err
}

// compact rewrites the ledger without events that are in the journal and not among the last KeepEvents. It keeps all
// events of an entry that is in quarantine or was restored, intents of unmounts without an result, and the last events
// of the breaker, so that folding the rest has the same result. The caller holds the
// append lock; other processes notice the new file at their next append.
func (s *Store) compact() error {
	keep, bytes, err := s.kept()
	if err != nil {
		return err
	}
	// Do not rewrite a ledger that would remain large.
	if bytes > s.ledger.size/4*3 {
		return nil
	}
	if err := s.sent.Sync(); err != nil {
		return fmt.Errorf("cannot sync the marker of sent events: %w", err)
	}
	before := s.ledger.size
	err = s.replace(ledgerFile, func(f File) error {
		w := bufio.NewWriterSize(f, 256<<10)
		for line, err := range s.events(0) {
			if err != nil {
				return err
			}
			if keep[line.Seq] {
				if _, err := w.Write(line.text); err != nil {
					return err
				}
			}
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.log.Info("old events were dropped from the ledger",
		slog.Int64("bytes_before", before), slog.Int64("bytes_after", s.ledger.size))
	return nil
}

// kept returns the numbers and the total size of the events to keep.
func (s *Store) kept() (keep map[int64]bool, bytes int64, err error) {
	l := &s.ledger
	keep = map[int64]bool{}
	n := 0
	for r, err := range s.events(0) {
		if err != nil {
			return nil, 0, err
		}
		if n >= l.lines-s.opts.KeepEvents || r.Seq > l.sent ||
			l.needs(r.Event) {
			keep[r.Seq] = true
			bytes += int64(len(r.text))
		}
		n++
	}
	return keep, bytes, nil
}

// needs reports whether folding without the event would have another result.
func (l *ledger) needs(e judge.Event) bool {
	_, entry := l.folded.Entries[e.Entry]
	return entry || e.Seq == l.breaker || e.Seq == l.unmounting[e.UID] || slices.Contains(l.restored[e.UID], e.Seq)
}
