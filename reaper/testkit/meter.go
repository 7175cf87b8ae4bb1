package testkit

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Meter is a reaper.Meter that counts nothing.
type Meter struct{}

// Success counts nothing.
func (Meter) Success(policy.Instant) {}

// Sighting counts nothing.
func (Meter) Sighting(parsers.Report) {}

// Look counts nothing.
func (Meter) Look(policy.Look, []policy.Judged, time.Duration) {}

// Outcome counts nothing.
func (Meter) Outcome(policy.Outcome) {}

// Quarantine counts nothing.
func (Meter) Quarantine(map[string]*policy.EntryState) {}

// Breaker counts nothing.
func (Meter) Breaker(bool) {}

// Quiet counts nothing.
func (Meter) Quiet(int64) {}

// Slow counts nothing.
func (Meter) Slow() {}

// Flush counts nothing.
func (Meter) Flush() {}
