package reaper

import (
	"context"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Scanner reads the node and changes nothing: node.Scanner.
type Scanner interface {
	// Scan reads every entry of the pods directory, or those of only if that is not empty, and the pods of also, which are
	// in quarantine. It returns in bounded time; what it cannot read is Unknown.
	Scan(ctx context.Context, only, also []parsers.PodUID) judge.Snapshot
}

// Disk changes the pods directory and the quarantine: quarantine.Quarantine. Nothing else does.
type Disk interface {
	// Execute carries out the moves in order and returns an outcome for each. When it returns, the outcomes are on disk.
	// When ctx ends, a clean or purge stops at its next step, and its outcome is Stopped; what was not begun is Refused.
	Execute(ctx context.Context, permit judge.Permit, moves []judge.Move) []judge.Outcome
	// Where returns the directories pods/UID and the entry of the quarantine; the zero FileID means that there is none. What
	// it returns is on disk: a killed run may have renamed without a sync.
	Where(uid parsers.PodUID, entry string) (inPods, inQuarantine judge.FileID, err error)
	// Movable returns why nothing can be moved to the quarantine, as far as that shows without a try.
	Movable() error
	// Make makes a missing quarantine, for which a full disk has no space when it is needed.
	Make(permit judge.Permit) error
	// Stuck returns the path at which a changing call has not returned, and for how long; "" if none is under way.
	Stuck() (path string, since time.Duration)
}

// Ledger is the durable record of every intent and result: ledger.Ledger.
type Ledger interface {
	// Enter locks the ledger, and with it every change of the node, against other processes, and reads what they have
	// appended. leave unlocks it.
	Enter(ctx context.Context) (leave func(), err error)
	// Append numbers the events, writes them, and returns them when they are on disk. After an error none of them counts.
	Append(events ...judge.Event) ([]judge.Event, error)
	// Entries returns the entries of the quarantine by name, and Restored the pods that were restored.
	Entries() map[string]judge.Entry
	Restored() map[parsers.PodUID]judge.Restoration
	// Breaker returns the event that opened the circuit breaker, and false if it is closed.
	Breaker() (judge.Event, bool)
	// Unsent returns events that the journal does not have yet. Sent marks all up to seq.
	Unsent() []judge.Event
	Sent(seq int64) error
}

// Clock returns the time of both clocks.
type Clock interface {
	Now() judge.Instant
}

// Recorder writes an event for operators: the journal.
type Recorder interface {
	Record(e judge.Event) error
}

// Meter counts for the metrics. Its methods do not block.
type Meter interface {
	Status(s Status, took time.Duration)
	Event(e judge.Event)
	// Hangs sets whether a call that changes the disk has not returned for two minutes: the pass that waits for it gives no
	// Status.
	Hangs(hangs bool)
}

// CNI sweeps the files of dead sandboxes: package cni. nil if the setting is off.
type CNI interface {
	// Sweep removes the stale files if the permit allows that, and returns its part of the status.
	Sweep(ctx context.Context, sweep CNISweep) *CNIStatus
	// Stuck is Disk's, of the calls of a sweep that changes something.
	Stuck() (path string, since time.Duration)
}

// CNISweep is what a sweep goes by.
type CNISweep struct {
	Permit    judge.Permit
	Snapshot  judge.Snapshot
	Cleaned   []parsers.PodUID // that this pass has confirmed dead
	Retention time.Duration    // of the archives
	// Write is for the events: the intent, after the archive is on disk and before the first removal, and the result. If it
	// returns false for the intent, nothing is removed.
	Write func(...judge.Event) bool
}

// CNIStatus is what lies in CNI's directories: a file of a sandbox is its cache, or an address that host-local has given out.
// Files that are none of Stale, Waiting, Unknown and Others are those of sandboxes that the runtime lists.
type CNIStatus struct {
	// Complete is true if a kubelet runs and every runtime that connects has answered completely: otherwise all is unknown.
	Complete bool         `json:"complete"`
	Files    int          `json:"files"` // of sandboxes, of every writer
	Bytes    int64        `json:"bytes"`
	Stale    int          `json:"stale"`              // what this or the next sweep that may change something removes
	Waiting  int          `json:"waiting"`            // what goes by itself once it is old enough, or at the next boot
	Unknown  int          `json:"unknown"`            // what cannot be judged, and is kept
	Others   int          `json:"others"`             // not of the kubelet's sandboxes, such as Podman's
	Removed  int          `json:"removed"`            // by this sweep
	Archive  string       `json:"archive,omitempty"`  // the tar that has what was removed
	Undo     string       `json:"undo,omitempty"`     // the command that restores it
	Networks []CNINetwork `json:"networks,omitempty"` // sorted by name
	// Kept are files that are kept since something is unknown or failed, at most ten. None of them needs an operator unless
	// Operator is true.
	Kept     []CNIFile `json:"kept,omitempty"`
	Problems []string  `json:"problems,omitempty"` // what could not be read or removed
	Operator bool      `json:"operator,omitempty"` // what only an operator can end
}

// CNINetwork is one network of host-local, or one of another IPAM plugin. A pod gets an address of each range set, such as one
// of IPv4 and one of IPv6: the numbers are those of the set that runs out first.
type CNINetwork struct {
	Name    string `json:"name"`
	Used    int    `json:"used"`           // addresses that are reserved
	Stale   int    `json:"stale"`          // of these, by dead sandboxes that are judged so now
	Waiting int    `json:"waiting"`        // of these, by dead sandboxes that are not old enough
	Size    int64  `json:"size,omitempty"` // addresses that the set can give out; 0 if none is configured on the node
	Full    bool   `json:"full,omitempty"` // no new pod gets an address
	// Keeper is the IPAM plugin that keeps the addresses, if it is not host-local: this program does nothing there.
	Keeper string `json:"keeper,omitempty"`
}

// CNIFile is one file that is kept, and why.
type CNIFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
