package testkit

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Meter is a reaper.Meter that counts nothing.
type Meter struct{}

// Each method of it does nothing.
func (Meter) Success(policy.Instant)                           {}
func (Meter) Sighting(parsers.Report)                          {}
func (Meter) Look(policy.Look, []policy.Judged, time.Duration) {}
func (Meter) Outcome(policy.Outcome)                           {}
func (Meter) Quarantine(map[string]*policy.EntryState)         {}
func (Meter) Breaker(bool)                                     {}
func (Meter) Quiet(int64)                                      {}
func (Meter) Slow()                                            {}
func (Meter) Flush() error                                     { return nil }
