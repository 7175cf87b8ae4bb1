package state

import (
	"bytes"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// History returns what the ledger still has of one pod, the oldest first: every outcome,
// and a last intent whose outcome is not there. The ledger keeps the last records however
// old they are, so it tells of pods that are gone for long where the journal does not.
func (s *Store) History(uid parsers.PodUID) ([]policy.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	if l.file == nil || uid == "" {
		return nil, nil
	}
	var all []policy.Record
	var open *policy.Record
	for line, err := range lines(l.file, 0, l.size) {
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		if !bytes.Contains(line, []byte(uid)) {
			continue
		}
		r, err := decode(line)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		switch {
		case r.UID != uid:
		case !r.Kind.Means().Intent:
			all, open = append(all, r), nil
		default:
			open = &r
		}
	}
	if open != nil {
		all = append(all, *open)
	}
	return all, nil
}
