package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// unsentBatch limits the records that Unsent returns, and so its memory after a long absence of the journal.
const unsentBatch = 16384

// ledger is the folded content of the ledger's file up to size.
type ledger struct {
	file    File
	size    int64 // end of the last complete line that was read
	lines   int   // lines up to size
	seq     int64 // of the last record
	entries map[string]*policy.EntryState
	// unmounting has the intents of unmounts without an outcome, by pod.
	unmounting map[parsers.PodUID]policy.Record

	breaker policy.Record
	resumed int64 // Seq of the last KindResumed
	sent    int64 // the journal has all records up to this Seq
	shown   int64 // the journal has all records before this offset
}

func (l *ledger) reset() {
	*l = ledger{sent: l.sent, entries: map[string]*policy.EntryState{}, unmounting: map[parsers.PodUID]policy.Record{}}
}

func (l *ledger) apply(r policy.Record, length int) {
	l.seq = r.Seq
	l.size += int64(length)
	if r.Seq <= l.sent {
		l.shown = l.size
	}
	l.lines++
	switch r.Kind {
	case policy.KindBreaker:
		l.breaker = r
	case policy.KindResumed:
		l.resumed = r.Seq
	case policy.KindUnmounting:
		l.unmounting[r.UID] = r
	case policy.KindUnmounted, policy.KindNotUnmounted:
		delete(l.unmounting, r.UID)
	default:
	}
	policy.Fold(l.entries, r)
	// Drop an entry that is no longer in quarantine, to save memory. A restored pod is kept until an operator runs
	// "quarantine forget".
	if e := l.entries[r.Entry]; e != nil && !e.Restored && e.Phase.Over() {
		delete(l.entries, r.Entry)
	}
}

// Append numbers the records, writes them in one write, syncs, and returns them. After an error none of them counts,
// and the file is unchanged.
func (s *Store) Append(records ...policy.Record) ([]policy.Record, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	if len(records) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	release, err := s.lockAppend()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.refresh(); err != nil {
		return nil, err
	}
	l := &s.ledger
	numbered := make([]policy.Record, len(records))
	lengths := make([]int, len(records))
	var buf bytes.Buffer
	seq := max(l.seq, l.sent)
	for i, r := range records {
		if r.Kind == "" {
			return nil, errors.New("cannot append to the ledger: a record has no kind")
		}
		seq++
		if r.Seq, r.By = seq, cmp.Or(r.By, s.opts.By); r.By != nil && *r.By == (policy.User{}) {
			r.By = nil
		}
		numbered[i] = r
		start := buf.Len()
		if err := encode(&buf, r); err != nil {
			return nil, fmt.Errorf("cannot append to the ledger: %w", err)
		}
		lengths[i] = buf.Len() - start
	}
	if slices.ContainsFunc(records, func(r policy.Record) bool { return r.Kind.Means().Intent }) {
		s.makeRoom() // for the outcomes and manifests that follow
	}
	write := func() error { return s.write(buf.Bytes()) }
	if slices.ContainsFunc(records, needed) {
		err = s.spending(write)
	} else {
		err = write()
	}
	if err != nil {
		return nil, err
	}
	for i, r := range numbered {
		l.apply(r, lengths[i])
	}
	s.keepReserve()
	if err := s.compactIfLarge(); err != nil {
		// The records are written and synced, so the error does not matter now.
		s.log.Warn("cannot drop old records from the ledger", errAttr(err))
	}
	return numbered, nil
}

// write appends b after the last complete line and syncs. If either fails, it truncates the file to its former size. If
// that fails too, or the process is killed, the next append or open removes the unfinished line.
func (s *Store) write(b []byte) error {
	f := s.ledger.file
	_, err := f.WriteAt(b, s.ledger.size)
	if err == nil {
		// fdatasync(2) also writes the size, since reading needs it.
		err = f.Datasync()
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("cannot append to %s: %w", s.ledgerPath(), err), f.Truncate(s.ledger.size))
}

func (s *Store) ledgerPath() string { return filepath.Join(s.dir, ledgerFile) }

// Entries returns a copy of the quarantine entries, folded from all records. It omits entries that are no longer in
// quarantine, except those that an operator restored.
func (s *Store) Entries() map[string]*policy.EntryState {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make(map[string]*policy.EntryState, len(s.ledger.entries))
	for name, e := range s.ledger.entries {
		e := *e
		// Fold changes these two maps in place.
		e.Taken, e.VolData = maps.Clone(e.Taken), maps.Clone(e.VolData)
		entries[name] = &e
	}
	return entries
}

// Unmounting returns the intents of unmounts that have no outcome, by pod.
func (s *Store) Unmounting() map[parsers.PodUID]policy.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ledger.unmounting)
}

// Refresh reads the new records of other processes.
func (s *Store) Refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly {
		return s.load()
	}
	release, err := s.lockAppend()
	if err != nil {
		return err
	}
	defer release()
	return s.refresh()
}

// Unsent returns the first records, at most unsentBatch, that the journal should have and does not have. Call it again
// after Sent.
func (s *Store) Unsent() []policy.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	var records []policy.Record
	for line, err := range s.records(l.shown) {
		if err != nil {
			s.log.Error("cannot read records for the journal; they are shown later", errAttr(err))
			break
		}
		switch {
		case line.Seq <= l.sent || line.Kind.Means().Intent && len(records) == 0:
			l.shown += int64(len(line.text))
		case !line.Kind.Means().Intent:
			records = append(records, line.Record)
		}
		if len(records) == unsentBatch {
			break
		}
	}
	return records
}

// Records returns all records of the ledger, and last the error that ended the reading, if any.
func (s *Store) Records() iter.Seq2[policy.Record, error] {
	return func(yield func(policy.Record, error) bool) {
		s.mu.Lock()
		all := s.records(0)
		s.mu.Unlock()
		for line, err := range all {
			if !yield(line.Record, err) {
				return
			}
		}
	}
}

// line is one line of the ledger with its record. The text is valid until the next line.
type line struct {
	policy.Record
	text []byte
}

// records returns the lines from the offset to ledger.size, and ends with the first error. The caller holds the mutex
// while it calls records, but not during the iteration.
func (s *Store) records(from int64) iter.Seq2[line, error] {
	f, end := s.ledger.file, s.ledger.size
	return func(yield func(line, error) bool) {
		if f == nil {
			return
		}
		for text, err := range lines(f, from, end) {
			var r policy.Record
			if err == nil {
				r, err = decode(text)
			}
			if err != nil {
				err = fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
			}
			if !yield(line{r, text}, err) || err != nil {
				return
			}
		}
	}
}

// History returns the ledger's records of one pod, the oldest first: every outcome, and a last intent without an
// outcome.
func (s *Store) History(uid parsers.PodUID) ([]policy.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uid == "" {
		return nil, nil
	}
	var all, open []policy.Record
	for r, err := range s.records(0) {
		switch {
		case err != nil:
			return nil, err
		case r.UID != uid:
		case r.Kind.Means().Intent:
			open = []policy.Record{r.Record}
		default:
			all, open = append(all, r.Record), nil
		}
	}
	return append(all, open...), nil
}
