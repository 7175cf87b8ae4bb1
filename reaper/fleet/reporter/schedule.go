package reporter

import "time"

const (
	// What changes on one node may change on all of them at the same moment.
	spread = time.Minute
	// busyShare is how many times the time that a write took passes before the next: an API server that is slow is left alone,
	// for mostBack at most. One write that hung must not make a report old.
	busyShare = 200
	// Between two writes because of changes, as long as no more than burst of them were made quickly;
	// after these one each slowGap. What an unprivileged pod does on its node, and however it spaces
	// it, can then cost the API server no more than 720 writes a day and these few.
	quickGap = 10 * time.Second
	slowGap  = 2 * time.Minute
	burst    = 6
	// A report in which nothing changed is written again by the first look after refresh.
	refresh       = 50 * time.Minute
	refreshSpread = 10 * time.Minute
	// After a failure.
	leastBack = 5 * time.Second
	mostBack  = 5 * time.Minute
)

// schedule computes when to write. It reads no clock.
type schedule struct {
	random func(most time.Duration) time.Duration
	due    time.Time     // when to write next; zero where there is nothing to write
	wrote  time.Time     // the last time that succeeded; zero for none
	paid   time.Time     // until when slowGap for each write has all passed
	free   time.Time     // until when the API server is left alone, by the time that it took for the last write
	back   time.Duration // after the last failure; 0 where there was none since wrote
}

// published records that there is a report, and whether it differs from the one that was written.
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

// failed records that the report could not be written; after is how long the server wants to be left alone.
func (s *schedule) failed(now time.Time, after time.Duration) {
	s.back = min(max(2*s.back, leastBack), mostBack)
	wait := s.back/2 + s.random(s.back/2)
	if after > 0 {
		wait = max(wait, after+s.random(spread))
	}
	s.due = now.Add(wait)
}
