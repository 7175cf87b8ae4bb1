package reaper

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// enforcing records when the daemon changed to mode enforce, and how long it waits before it acts. It is saved across
// restarts, so that a node waits once, and cleared in mode observe.
type enforcing struct {
	Since policy.Instant `json:"since"`
	Wait  time.Duration  `json:"wait"`
}

// left returns the rest of the wait, which is never longer than most. After a reboot only the wall clock counts.
func (e enforcing) left(now policy.Instant, most time.Duration) policy.Delay {
	passed, ok := now.Since(e.Since)
	if !ok {
		passed = max(0, now.Wall.Sub(e.Since.Wall))
	}
	left := min(e.Wait, most) - passed
	if left <= 0 {
		return policy.Delay{}
	}
	return policy.Delay{Until: now.Wall.Add(left).Truncate(time.Second), Left: left}
}

// spread begins the wait of a daemon that has changed to mode enforce, and sets the rest of it for the gate.
func (d *Daemon) spread() {
	now, was := d.Clock.Now(), d.enforcing
	switch {
	case d.Rules.Observe:
		d.enforcing = enforcing{}
	case was == enforcing{}:
		part := d.Part
		if part == nil {
			part = randomPart
		}
		d.enforcing = enforcing{now, part(d.Rules.EnforceSpread)}
	}
	if d.enforcing != was && d.Store != nil {
		if err := d.Store.Save("enforcing", d.enforcing); err != nil {
			d.Log.Error("cannot save when mode enforce began; after a restart the node waits a part of enforce_spread again", slog.Any("error", err))
		}
	}
	d.Rules.Delay = d.enforcing.left(now, d.Rules.EnforceSpread)
}

// DelayOf returns how long the daemon with this state still waits before it enforces; most is its enforce_spread.
func DelayOf(s Store, now policy.Instant, most time.Duration) policy.Delay {
	var e enforcing
	if ok, err := s.Load("enforcing", &e); err != nil || !ok {
		return policy.Delay{}
	}
	return e.left(now, most)
}

// randomPart returns the longest of three random parts of most: only one node in 27 begins in the first third, in which it
// proves whether its judgement is right.
func randomPart(most time.Duration) time.Duration {
	return max(rand.N(most+1), rand.N(most+1), rand.N(most+1))
}
