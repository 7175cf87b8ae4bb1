package ui

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestGoesByTheBootClock: a wall clock that is set forward within a boot purges nothing, so the list does not
// announce a purge.
func TestGoesByTheBootClock(t *testing.T) {
	at := func(ago time.Duration) policy.Instant {
		return policy.Instant{Wall: time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC).Add(-ago), BootID: "b", Boot: 1000*time.Hour - ago}
	}
	scratch := policy.Residue{Path: "volumes/kubernetes.io~empty-dir/cache", Class: contents.ClassEphemeral}
	e := policy.EntryState{Phase: policy.PhaseConfirmed, ConfirmedAt: at(time.Hour), Left: []policy.Residue{scratch}}
	stepped := at(0)
	stepped.Wall = stepped.Wall.Add(1000 * time.Hour)
	for _, now := range []policy.Instant{at(0), stepped} {
		v := viewEntry(e, Context{Now: now, Retention: 24 * time.Hour})
		if got := v.fate(now.Wall); got != "purged in 23h00m" {
			t.Errorf("at %v: %q", now, got)
		}
	}
}
