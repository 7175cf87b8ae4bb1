package reaper

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Prober reads the node and changes nothing.
type Prober interface {
	// Look reads the facts about all pods, or about the UIDs in only if that is not empty, and about the parked entries
	// in quarantine. The directory of a parked entry that rests is not read. What cannot be read is Unknown, with an
	// error in Look.Errors; the returned error is for a missing pods directory. It returns in bounded time.
	Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error)
	// Mounts returns FactMounted of each UID, and MountsParked that of the pods' entries in quarantine.
	Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact
	MountsParked(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact
	// Still asks the last question: it reads the facts of policy.LastFacts again for these pods, with one call of each
	// source, and returns a copy of each pod's evidence with them. If a source does not answer in time, its facts are
	// Unknown.
	Still(ctx context.Context, pods []policy.Evidence) []policy.Evidence
}

// Remover moves and removes what lies in the pods directory and in quarantine. Nothing else does.
type Remover interface {
	// Execute carries out the batch and returns the outcome of each action, in order. It stops early only if ctx ends;
	// actions that were not begun are then Refused. It also removes the manifests of entries that are not there.
	Execute(ctx context.Context, permit policy.Permit, batch policy.Batch) []policy.Outcome
	// Where reports whether pods/UID exists, and whether the quarantine entry exists.
	Where(uid parsers.PodUID, entry string) (inPods, inQuarantine bool, err error)
	// Home identifies the quarantine and its parent directory. The quarantine is zero if it does not exist or cannot be
	// used.
	Home() (parent, quarantine policy.DirID, err error)
	// List returns the names in quarantine without the manifests.
	List() ([]string, error)
	// Movable returns why nothing can be moved to the quarantine, as far as that shows without a try.
	Movable() error
	// Means returns which means of the kernel confine the remover.
	Means() policy.Means
}

// Ledger is the durable record of every intent and outcome.
type Ledger interface {
	// Enter locks the ledger, and with it every change to the node, and reads what other processes, such as
	// orphan-reaper quarantine restore, have appended since. leave unlocks it.
	Enter(ctx context.Context) (leave func(), err error)
	// Append numbers the records, writes them in one write, syncs, and returns them.
	Append(records ...policy.Record) ([]policy.Record, error)
	// Entries returns the quarantine entries, folded from all records. The caller must not change them.
	Entries() map[string]*policy.EntryState
	// Unmounting returns the intents of operators' unmounts that have no outcome, by pod.
	Unmounting() map[parsers.PodUID]policy.Record
	// BreakerOpen reports whether enforcing stopped and no operator has resumed it.
	BreakerOpen() bool
	// Unsent returns records that are not in the journal yet. Sent marks all up to seq as sent.
	Unsent() []policy.Record
	Sent(seq int64) error
}

// Store keeps small values across restarts, each in an atomic, synced file.
type Store interface {
	Load(name string, v any) (bool, error)
	Save(name string, v any) error
}

// Clock returns the time of both clocks.
type Clock interface {
	Now() policy.Instant
}

// Recorder writes records for operators.
type Recorder interface {
	Record(r policy.Record) error
}

// Meter counts for the metrics.
type Meter interface {
	Sighting(report parsers.Report)
	// Look counts a look with its pods and their verdicts.
	Look(look policy.Look, pods []policy.Judged, took time.Duration)
	Outcome(o policy.Outcome)
	// Quiet counts the lines that the kubelet wrote about pods until its message about them stopped.
	Quiet(lines int64)
	Quarantine(entries map[string]*policy.EntryState)
	Breaker(open bool)
	// Success records that a pass ended without a failure.
	Success(at policy.Instant)
	// Slow counts a pass that has been running for long.
	Slow()
	// Flush writes the metrics out. It logs its errors, and does not wait long for a file system that hangs.
	Flush()
}

// Neighbour is a product beside the core with a turn at the end of a pass: the sweep over stale CNI files (reaper/cni).
type Neighbour interface {
	Turn(ctx context.Context, t Turn) Turned
}

// Turn is the input of a neighbour's turn.
type Turn struct {
	Rules   policy.Rules
	Only    []parsers.PodUID // empty: all pods
	DryRun  bool             // look and decide, and change nothing
	Node    policy.Node      // as the look found it
	Stopped bool             // the breaker is open
	Memory  json.RawMessage  // of the turn before, also in an earlier process
}

// Turned is the result of a neighbour's turn.
type Turned interface {
	// Due returns the time until the next turn, and whether that turn can remove something.
	Due() (in time.Duration, pending bool)
	// Problems returns what could not be read or changed, for display.
	Problems() []string
	// Memory returns what the next turn needs of this one.
	Memory() json.RawMessage
	// After returns the sum of this turn and an earlier one.
	After(earlier Turned) Turned
}

// Report is all that one pass found and did: what scan, explain and sweep print.
type Report struct {
	Look     policy.Look     // without its pods
	Pods     []policy.Judged // by stage, and in each by name
	Outcomes []policy.Outcome
	Entries  []policy.EntryState // in quarantine, sorted by entry
	Stopped  bool                // by the breaker: an operator must resume enforcing
	// Quarantine is why a dry run could not read the quarantine, or why that is not the right one.
	Quarantine error
	// Unfinished counts the entries that the last pass could not finish, and for which no time has to pass.
	Unfinished int
	CNI        Turned       // nil if no turn was due
	Means      policy.Means // which means of the kernel confine the remover
	byOperator bool         // the pass is an operator's command
	undone     bool         // something was not done, since the ledger could not be written
	// Next is the time from the end of the pass after which time alone may change something. Pending is true if a pod
	// waits for that.
	Next    time.Duration
	Pending bool
}
