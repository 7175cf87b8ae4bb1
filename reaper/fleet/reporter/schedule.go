package reporter

import "time"

const (
	// spread delays a write by a random time: a change may happen on all nodes at the same moment.
	spread = time.Minute
	// busyShare limits the load on a slow API server: the next write comes no sooner than busyShare times the duration
	// of the last write, but within mostBack, so that one slow write does not make a report old.
	busyShare = 200
	// Because of changes, burst writes may follow each other after quickGap, and later ones after slowGap. So an
	// unprivileged pod can cause no more than 720 writes a day and burst.
	quickGap = 10 * time.Second
	slowGap  = 2 * time.Minute
	burst    = 6
	// An unchanged report is written again after the first look after refresh.
	refresh       = 50 * time.Minute
	refreshSpread = 10 * time.Minute
	// The limits of the wait after a failure.
	leastBack = 5 * time.Second
	mostBack  = 5 * time.Minute
)

// schedule computes when to write. It reads no clock.
type schedule struct {
	random func(most time.Duration) time.Duration
	due    time.Time     // when to write next; zero if there is nothing to write
	wrote  time.Time     // the last successful write, or zero
	paid   time.Time     // when one slowGap for each write will have passed
	free   time.Time     // no write before this time, because of busyShare
	back   time.Duration // the wait after the last failure; 0 if none since wrote
}

// published records that there is a report, and whether it differs from the last written one.
func (s *schedule) published(now time.Time, changed bool) {
	at := now
	switch {
	case s.wrote.IsZero():
		at = at.Add(s.random(spread))
	case changed:
		for _, free := range []time.Time{s.wrote.Add(quickGap), s.paid.Add(-(burst - 1) * slowGap), s.free} {
			if free.After(at) {
				at = free
			}
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

// written records that a report was written, and how long that took.
func (s *schedule) written(now time.Time, took time.Duration) {
	if s.paid.Before(now) {
		s.paid = now
	}
	s.paid, s.free = s.paid.Add(slowGap), now.Add(min(busyShare*took, mostBack))
	s.wrote, s.due, s.back = now, time.Time{}, 0
}

// failed records that the report could not be written. after is the server's Retry-After.
func (s *schedule) failed(now time.Time, after time.Duration) {
	s.back = min(max(2*s.back, leastBack), mostBack)
	wait := s.back/2 + s.random(s.back/2)
	if after > 0 {
		wait = max(wait, after+s.random(spread))
	}
	s.due = now.Add(wait)
}
