package reaper

import (
	"context"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Request says what a look must cover besides the pods directory.
type Request struct {
	// Parked are the quarantine entries to look at as parked pods.
	Parked []policy.EntryState
	// Only limits the look to these UIDs; empty means the whole pods directory.
	Only []parsers.PodUID
}

// Prober reads the node and changes nothing.
type Prober interface {
	// Look gathers the facts. Whatever cannot be read is Unknown and told in Look.Errors;
	// the error is for a look that could not be taken at all (the pods directory is not
	// there). It returns in bounded time whatever hangs.
	Look(ctx context.Context, req Request) (policy.Look, error)
	// Mounts says for each UID whether a mount of any namespace names it, as FactMounted.
	Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact
}

// Place is where a pod directory was found.
type Place struct {
	InPods       bool // there is a pods/UID
	InQuarantine bool // there is a quarantine entry
}

// Remover is the only thing that changes the disk outside our own state directory.
type Remover interface {
	// Execute carries out the plan and says for each action how it ended, in order. It
	// stops early only where ctx ends; actions that were not begun are then Refused.
	Execute(ctx context.Context, plan policy.Plan) []policy.Outcome
	// Where looks for a pod directory and its quarantine entry.
	Where(uid parsers.PodUID, entry string) (Place, error)
}

// Ledger is the durable record of every intent and outcome.
type Ledger interface {
	// Append numbers the records, writes them in one write, syncs, and returns them.
	Append(records ...policy.Record) ([]policy.Record, error)
	// Entries returns the quarantine entries, folded from all records; the caller must not
	// change them.
	Entries() map[string]*policy.EntryState
	// Unsent returns the records that the journal has not got, and Sent says that it has
	// got all up to seq.
	Unsent() []policy.Record
	Sent(seq int64) error
}

// Store keeps small values across restarts, each in an atomic, synced file.
type Store interface {
	Load(name string, v any) (bool, error)
	Save(name string, v any) error
}

// Clock tells the time on both clocks.
type Clock interface {
	Now() policy.Instant
}

// Teller shows records to people.
type Teller interface {
	Tell(r policy.Record) error
}

// Report is all that one pass found and did: what scan, explain and sweep print.
type Report struct {
	Look     policy.Look
	Verdicts []policy.Verdict // one for each of Look.Pods
	Parked   []policy.ParkedVerdict
	Planned  []policy.Action
	Outcomes []policy.Outcome
	Entries  []policy.EntryState // what lies in quarantine
}
