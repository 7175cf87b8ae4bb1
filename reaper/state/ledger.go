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

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
)

// unsentBatch is the most records that Unsent returns at once. It bounds memory where
// the journal has been away for long.
const unsentBatch = 16384

// ledger is what is known of the ledger's file: everything up to size has been read and
// folded.
type ledger struct {
	file    File
	size    int64 // end of the last whole line that was read
	lines   int   // lines up to size
	seq     int64 // of the last record
	entries map[string]*policy.EntryState
	breaker policy.Record
	resumed int64 // Seq of the last KindResumed
	sent    int64 // the journal has all up to this Seq
	unsent  []position
}

// position is where in the file a record stands that the journal has not got.
type position struct {
	seq, offset int64
	length      int
}

func (l *ledger) reset() {
	*l = ledger{sent: l.sent, entries: map[string]*policy.EntryState{}}
}

// apply takes one record into the folded state.
func (l *ledger) apply(r policy.Record, length int) {
	if !r.Kind.Means().Intent && r.Seq > l.sent {
		l.unsent = append(l.unsent, position{r.Seq, l.size, length})
	}
	l.seq = r.Seq
	l.size += int64(length)
	l.lines++
	if r.Kind == policy.KindBreaker {
		l.breaker = r
	}
	if r.Kind == policy.KindResumed {
		l.resumed = r.Seq
	}
	policy.Fold(l.entries, r)
	// What is no longer in quarantine would only fill memory. A restored pod stays: its UID
	// is kept until a person has it forgotten.
	if e := l.entries[r.Entry]; e != nil && !e.Restored && e.Phase.Over() {
		delete(l.entries, r.Entry)
	}
}

// Append numbers the records, writes them in one write, syncs, and returns them. On an
// error none of them counts, and the file is as it was before.
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
		if r.Seq, r.By = seq, cmp.Or(r.By, s.opts.By); r.By != nil && *r.By == (who.Person{}) {
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
		s.makeRoom() // also for the manifests that are written next
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
		// The records are written and synced; a ledger that stays large harms nobody now.
		s.log.Warn("cannot drop old records from the ledger", errAttr(err))
	}
	return numbered, nil
}

// write puts b behind the last whole line and syncs. Where either fails it takes back
// what it wrote, so that the file stays whole; where that fails too (or the process is
// killed here) the next append or open finds an unfinished line and cuts it off.
func (s *Store) write(b []byte) error {
	f := s.ledger.file
	_, err := f.WriteAt(b, s.ledger.size)
	if err == nil {
		// The size is metadata that reading back needs, so fdatasync(2) writes it too.
		err = f.Datasync()
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("cannot append to %s: %w", s.ledgerPath(), err), f.Truncate(s.ledger.size))
}

func (s *Store) ledgerPath() string { return filepath.Join(s.dir, ledgerFile) }

// Entries returns the quarantine entries, folded from all records. An entry that is gone
// is left out, unless a person restored it. The map is a copy.
func (s *Store) Entries() map[string]*policy.EntryState {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make(map[string]*policy.EntryState, len(s.ledger.entries))
	for name, e := range s.ledger.entries {
		e := *e
		// Fold adds to these two in place; everything else it replaces.
		e.Taken, e.VolData = maps.Clone(e.Taken), maps.Clone(e.VolData)
		entries[name] = &e
	}
	return entries
}

// Refresh reads what other processes have appended since.
func (s *Store) Refresh() error {
	if s.root == nil {
		return nil
	}
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

// Unsent returns the first records, at most 16,384, that people should see and the journal
// has not got. Call it again after Sent.
func (s *Store) Unsent() []policy.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []policy.Record
	var buf []byte
	for _, p := range s.ledger.unsent[:min(len(s.ledger.unsent), unsentBatch)] {
		if cap(buf) < p.length {
			buf = make([]byte, p.length)
		}
		buf = buf[:p.length]
		if _, err := s.ledger.file.ReadAt(buf, p.offset); err != nil {
			s.log.Error("cannot read records for the journal; they are shown later", errAttr(err))
			return records
		}
		r, err := decode(buf)
		if err != nil {
			s.log.Error("cannot read records for the journal; they are shown later", errAttr(err))
			return records
		}
		records = append(records, r)
	}
	return records
}

// Records returns all records from the first that is kept, or the error that ended the
// reading.
func (s *Store) Records() iter.Seq2[policy.Record, error] {
	return func(yield func(policy.Record, error) bool) {
		s.mu.Lock()
		f, size := s.ledger.file, s.ledger.size
		s.mu.Unlock()
		if f == nil {
			return
		}
		for line, err := range lines(f, 0, size) {
			var r policy.Record
			if err == nil {
				r, err = decode(line)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
