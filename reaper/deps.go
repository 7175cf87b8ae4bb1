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
	// Look gathers the facts on the pods directory, or on the UIDs of only if that is not empty, and on the parked
	// quarantine entries, of which those that rest are not read. What cannot be read is Unknown, with an error in
	// Look.Errors; the returned error is for a pods directory that is not there. It returns in bounded time.
	Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error)
	// Mounts returns FactMounted of each UID.
	Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact
	// Still reads the facts of policy.LastFacts again for these pods, one call of each source, and returns a
	// copy of each pod's evidence with them. A source that does not answer in time leaves its facts Unknown.
	Still(ctx context.Context, pods []policy.Evidence) []policy.Evidence
	// MountsParked returns the same of the pods' entries in quarantine.
	MountsParked(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact
}

// Remover is the only thing that changes the disk but for our own files: the state directory and the metrics.
type Remover interface {
	// Execute carries out the batch and returns the outcome of each action, in order. It stops early only if ctx ends;
	// actions that were not begun are then Refused. It also removes the manifests of entries that are not there.
	Execute(ctx context.Context, permit policy.Permit, batch policy.Batch) []policy.Outcome
	// Where reports whether there is a pods/UID, and whether there is the quarantine entry.
	Where(uid parsers.PodUID, entry string) (inPods, inQuarantine bool, err error)
	// Home identifies the directory that the quarantine lies in, or would, and the quarantine, zero where there is none
	// or it cannot be used.
	Home() (parent, quarantine policy.DirID, err error)
	// List returns the names that lie in quarantine, manifests left out.
	List() ([]string, error)
	// Means returns how it is kept to what it is to change.
	Means() policy.Means
}

// Ledger is the durable record of every intent and outcome.
type Ledger interface {
	// Enter takes the lock under which anything is changed, and reads what other processes
	// (orphan-reaper quarantine restore) have appended since. The function ends it.
	Enter(ctx context.Context) (leave func(), err error)
	// Append numbers the records, writes them in one write, syncs, and returns them.
	Append(records ...policy.Record) ([]policy.Record, error)
	// Entries returns the quarantine entries, folded from all records; the caller must not
	// change them.
	Entries() map[string]*policy.EntryState
	// Unmounting returns the intents of operators' unmounts that have no outcome, by pod.
	Unmounting() map[parsers.PodUID]policy.Record
	// BreakerOpen reports whether enforcing stopped and no operator has resumed removals.
	BreakerOpen() bool
	// Unsent returns the records that the journal has not got, and Sent reports that it has
	// got all up to seq.
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
	// Flush writes the metrics out.
	Flush() error
}

// Neighbour is a product beside the core with a turn at the end of a pass: the sweep over stale CNI files (reaper/cni).
type Neighbour interface {
	Turn(ctx context.Context, t Turn) Turned
}

// Turn is what a neighbour needs to know of the pass.
type Turn struct {
	Rules  policy.Rules
	Only   []parsers.PodUID // empty: all pods
	DryRun bool             // the same way, without the last step and without a trace
	Node   policy.Node      // what the look found out about the node
	// Stopped: the breaker is open, also if the ledger could not be written.
	Stopped bool
	// Memory is what the turn before returned, also in an earlier process.
	Memory json.RawMessage
}

// Turned is what a turn found and did. The core adds turns up and knows no more of them.
type Turned interface {
	// Due is how long from now the next turn is worth while, and whether it can take something further.
	Due() (in time.Duration, pending bool)
	// Problems are what could not be read or changed, for display.
	Problems() []string
	Memory() json.RawMessage
	// After returns the sum of this turn and an earlier one.
	After(earlier Turned) Turned
}

// Report is all that one pass found and did: what scan, explain and sweep print.
type Report struct {
	Look     policy.Look     // without its pods
	Pods     []policy.Judged // by stage, and in each by name
	Outcomes []policy.Outcome
	Entries  []policy.EntryState // what lies in quarantine, sorted by entry
	Stopped  bool                // by the breaker: an operator must resume removals
	// Unfinished counts the entries with which the last pass could not go on, though they wait for nothing that ends by
	// itself.
	Unfinished int
	CNI        Turned       // nil where no turn was due
	Means      policy.Means // how the remover is kept to what it is to change
	byPerson   bool         // an operator's command
	// Next is when time alone could change something, from the end of the pass; 0 is now.
	Next time.Duration
	// Pending is true where waiting for Next can take a pod further.
	Pending bool
}
