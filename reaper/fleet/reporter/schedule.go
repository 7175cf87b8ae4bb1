package reporter

import "time"

const (
	// What changes on one node may change on all of them at the same moment.
	spread = 5 * time.Second
	// Between two writes because of changes; it grows while they do not end. What an unprivileged
	// pod does on its node can then cost the API server no more than one write in mostGap.
	leastGap = 10 * time.Second
	mostGap  = 2 * time.Minute
	quietFor = 4 // as many gaps without a write end that
	// A report in which nothing changed is written again by the first look after refresh.
	refresh       = 50 * time.Minute
	refreshSpread = 10 * time.Minute
	// After a failure.
	leastBack = 5 * time.Second
	mostBack  = 5 * time.Minute
)

// schedule says when to write. It knows time only as what is passed in.
type schedule struct {
	random func(most time.Duration) time.Duration
	due    time.Time // when to write next; zero where there is nothing to write
	wrote  time.Time // the last time that succeeded; zero for none
	gap    time.Duration
	back   time.Duration // after the last failure; 0 where there was none since wrote
}

// published takes in that there is a report, and whether it differs from the one that was written.
func (s *schedule) published(now time.Time, changed bool) {
	at := now
	switch {
	case s.wrote.IsZero():
		at = at.Add(s.random(spread))
	case changed:
		if next := s.wrote.Add(s.gap); next.After(now) {
			at = next
		}
		at = at.Add(s.random(spread))
	case now.Sub(s.wrote) >= refresh:
		at = at.Add(s.random(refreshSpread))
	default:
		return
	}
	if s.due.IsZero() || s.back == 0 && at.Before(s.due) {
		s.due = at
	}
}

// written takes in that a report was written.
func (s *schedule) written(now time.Time) {
	if !s.wrote.IsZero() && now.Sub(s.wrote) < quietFor*s.gap {
		s.gap = min(2*s.gap, mostGap)
	} else {
		s.gap = leastGap
	}
	s.wrote, s.due, s.back = now, time.Time{}, 0
}

// failed takes in that the report could not be written.
func (s *schedule) failed(now time.Time) {
	s.back = min(max(2*s.back, leastBack), mostBack)
	s.due = now.Add(s.back/2 + s.random(s.back/2))
}
