package ledger

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
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// unsentBatch limits the events that Unsent returns, and so its memory after a long absence of the journal.
const unsentBatch = 16384

// ledger is the folded content of the ledger's file up to size.
type ledger struct {
	file   File
	size   int64 // end of the last complete line that was read
	lines  int   // lines up to size
	seq    int64 // of the last event
	folded judge.Folded
	// unmounting has the intents of unmounts without a result, by pod.
	unmounting map[parsers.PodUID]int64
	// What folding needs besides the events of the entries: the last ones of restored pods by UID, and the last that opened or
	// closed the breaker.
	restored map[parsers.PodUID][]int64
	breaker  int64

	sent  int64 // the journal has all events up to this Seq
	shown int64 // the journal has all events before this offset
}

func (l *ledger) reset() {
	*l = ledger{sent: l.sent, unmounting: map[parsers.PodUID]int64{}, restored: map[parsers.PodUID][]int64{}}
}

func (l *ledger) apply(e judge.Event, length int) {
	l.seq = e.Seq
	l.size += int64(length)
	if e.Seq <= l.sent {
		l.shown = l.size
	}
	l.lines++
	switch e.Kind {
	case judge.EventBreaker, judge.EventResumed:
		l.breaker = e.Seq
	case judge.EventUnmounting:
		l.unmounting[e.UID] = e.Seq
	case judge.EventUnmounted:
		delete(l.unmounting, e.UID)
	case judge.EventRestored, judge.EventReleased:
		l.restored[e.UID] = append(l.restored[e.UID], e.Seq)
	default:
	}
	l.folded.Apply(e)
	if _, ok := l.folded.Restored[e.UID]; !ok {
		delete(l.restored, e.UID)
	}
}

// Append numbers the events, writes them in one write, syncs, and returns them. After an error none of them counts,
// and the file is unchanged.
func (s *Store) Append(events ...judge.Event) ([]judge.Event, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	if len(events) == 0 {
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
	numbered, lines, err := s.number(events)
	if err != nil {
		return nil, fmt.Errorf("cannot append to the ledger: %w", err)
	}
	if slices.ContainsFunc(events, func(r judge.Event) bool { return r.Kind.Intent() }) {
		s.makeRoom() // for the results and manifests that follow
	}
	write := func() error { return s.write(bytes.Join(lines, nil)) }
	if slices.ContainsFunc(events, needed) {
		err = s.spending(write)
	} else {
		err = write()
	}
	if err != nil {
		return nil, err
	}
	for i, r := range numbered {
		s.ledger.apply(r, len(lines[i]))
	}
	s.keepReserve()
	if err := s.compactIfLarge(); err != nil {
		// The events are written and synced, so the error does not matter now.
		s.log.Warn("cannot drop old events from the ledger", errAttr(err))
	}
	return numbered, nil
}

// number gives events their numbers and what this process adds, and returns the line of each.
func (s *Store) number(events []judge.Event) ([]judge.Event, [][]byte, error) {
	numbered, lines := slices.Clone(events), make([][]byte, len(events))
	seq := max(s.ledger.seq, s.ledger.sent)
	for i := range numbered {
		r := &numbered[i]
		if !r.Kind.Known() {
			return nil, nil, fmt.Errorf("%q is no kind of event", r.Kind)
		}
		seq++
		if r.Seq, r.By = seq, cmp.Or(r.By, s.opts.By); r.By != nil && *r.By == (judge.User{}) {
			r.By = nil
		}
		if r.Kind == judge.EventMoving {
			r.Quarantine = s.opts.Quarantine
		}
		var line bytes.Buffer
		if err := encode(&line, *r); err != nil {
			return nil, nil, err
		}
		lines[i] = line.Bytes()
	}
	return numbered, lines, nil
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

// Entries returns a copy of the entries of the quarantine, by name.
func (s *Store) Entries() map[string]judge.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ledger.folded.Entries)
}

// Restored returns a copy of what is known of pods that were restored.
func (s *Store) Restored() map[parsers.PodUID]judge.Restoration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ledger.folded.Restored)
}

// Breaker returns the event that opened the circuit breaker, and false if it is closed.
func (s *Store) Breaker() (judge.Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ledger.folded.Breaker; e != nil {
		return *e, true
	}
	return judge.Event{}, false
}

// Refresh reads the new events of other processes.
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

// Unsent returns the first events, at most unsentBatch, that the journal should have and does not have. Call it again
// after Sent.
func (s *Store) Unsent() []judge.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	var events []judge.Event
	for line, err := range s.events(l.shown) {
		if err != nil {
			s.log.Error("cannot read events for the journal; they are shown later", errAttr(err))
			break
		}
		switch {
		case line.Seq <= l.sent || line.Kind.Intent() && len(events) == 0:
			l.shown += int64(len(line.text))
		case !line.Kind.Intent():
			events = append(events, line.Event)
		}
		if len(events) == unsentBatch {
			break
		}
	}
	return events
}

// line is one line of the ledger with its event. The text is valid until the next line.
type line struct {
	judge.Event
	text []byte
}

// events returns the lines from the offset to ledger.size, and ends with the first error. The caller holds the mutex
// while it calls events, but not during the iteration.
func (s *Store) events(from int64) iter.Seq2[line, error] {
	f, end := s.ledger.file, s.ledger.size
	return func(yield func(line, error) bool) {
		if f == nil {
			return
		}
		for text, err := range lines(f, from, end) {
			var r judge.Event
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

// History returns the ledger's events of one pod, the oldest first: every result, and a last intent without an
// result.
func (s *Store) History(uid parsers.PodUID) ([]judge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uid == "" {
		return nil, nil
	}
	var all, open []judge.Event
	for r, err := range s.events(0) {
		switch {
		case err != nil:
			return nil, err
		case r.UID != uid:
		case r.Kind.Intent():
			open = []judge.Event{r.Event}
		default:
			all, open = append(all, r.Event), nil
		}
	}
	return append(all, open...), nil
}
