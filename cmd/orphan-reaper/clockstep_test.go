package main

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestGoesByTheBootClock: a wall clock that was set forward within a boot purges nothing, so the
// list does not say that something goes now.
func TestGoesByTheBootClock(t *testing.T) {
	e := policy.EntryState{Phase: policy.PhaseHeld, HeldSince: at(time.Hour), Left: []policy.Residue{scratch}}
	stepped := at(0)
	stepped.Wall = stepped.Wall.Add(1000 * time.Hour)
	for _, now := range []policy.Instant{at(0), stepped} {
		v := viewEntry(e, viewContext{Now: now, Retention: 24 * time.Hour})
		if got := v.fate(now.Wall); got != "purged in 23h00m" {
			t.Errorf("at %v: %q", now, got)
		}
	}
}
