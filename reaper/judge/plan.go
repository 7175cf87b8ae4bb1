package judge

import (
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// Action is one way to change the disk. There are no others.
type Action string

// The actions on one pod.
const (
	Quarantine Action = "quarantine" // move pods/UID into the quarantine
	Restore    Action = "restore"    // move it back, if there is no pods/UID
	Exchange   Action = "exchange"   // move it back in exchange for a pods/UID that has only what a kubelet makes first
	Leave      Action = "leave"      // change nothing: the pod is alive and has another directory that is in use
	Clean      Action = "clean"      // remove from a quarantined entry what Remove names
	Purge      Action = "purge"      // the same by an operator's order: all that is in it
)

// Move is one planned change. It is carried out once.
type Move struct {
	Action Action
	UID    parsers.PodUID
	Entry  string // the name in quarantine: UID.NUMBER
	// ID is the directory that was judged. Another directory of that name is left alone.
	ID FileID
	// Remove are the classes that Clean and Purge remove.
	Remove content.Set
	// Replace is `quarantine restore --replace`: an Exchange also for a pods/UID that is in use, but not with a mount in it.
	Replace bool
	// Resumed is true if an earlier Clean or Purge of the entry was cut short: if the entry is gone, that one removed it.
	Resumed bool
	// Pod is what the record needs: names, and whether the pod is static.
	Namespace, PodName string
	Static             bool
	Reasons            []Reason
	By                 *User // the operator who asked for it; nil for the daemon
}

// Result is how one move ended.
type Result string

// The results.
const (
	Done     Result = "done"
	Gone     Result = "gone"     // the kubelet or another process removed it first
	Refused  Result = "refused"  // nothing was changed, or the change was undone; Err has why
	Partly   Result = "partly"   // some of it is still in quarantine: Left
	Failed   Result = "failed"   // an error for an operator
	Conflict Result = "conflict" // not restored: pods/UID exists and is in use
)

// Outcome is what one move did to the disk.
type Outcome struct {
	Move   Move
	Result Result
	Err    string                  // for Refused and Failed: the error with its path
	Taken  map[content.Class]Tally // what was removed, by class
	Left   []Residue               // what is still in quarantine
	// VolData has the content of each vol_data.json that was removed, by its path.
	VolData map[string]string
	ID      FileID // of the directory that is in quarantine now, or was restored
	// Other is the entry that Exchange has made of the directory that was in the pods directory. A skeleton is removed at
	// once, and Other is empty then.
	Other   string
	OtherID FileID
	// Stopped is true if the program had to end before the move had ended: its intent stays open.
	Stopped bool
}

// Tally counts directory entries and allocated bytes.
type Tally struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Residue is a file or directory that is left of a dead pod.
type Residue struct {
	Path  string        `json:"path"` // relative to the pod directory, quoted if it is not clean UTF-8
	Class content.Class `json:"class"`
	Tally
	Partial bool `json:"partial,omitempty"` // there is more below it than was counted
}

// Phase is where a quarantined entry stands, as folded from the ledger.
type Phase string

// The phases. An intent without a result is one of the phases that end in -ing.
const (
	Moving      Phase = "moving"      // the intent is written, the rename may not have happened
	Quarantined Phase = "quarantined" // waits for the end of confirm
	Restoring   Phase = "restoring"
	Cleaning    Phase = "cleaning"
	Retained    Phase = "retained" // confirmed dead; what is left waits for retention or for an operator
	Purging     Phase = "purging"
	InConflict  Phase = "conflict" // the pod is alive and has another directory: only an operator ends it
)

// OtherSuffix ends the name of the entry that Exchange makes of the directory that was at pods/UID.
const OtherSuffix = ".new"

// Entry is one entry of the quarantine, folded from the ledger.
type Entry struct {
	Name      string         `json:"entry"`
	UID       parsers.PodUID `json:"uid"`
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod_name,omitempty"`
	Static    bool           `json:"static,omitempty"`
	Phase     Phase          `json:"phase"`
	Before    Phase          `json:"-"` // the phase to which it returns if the open intent fails
	ID        FileID         `json:"id,omitzero"`
	MovedAt   Instant        `json:"moved_at,omitzero"`
	// ConfirmedAt is when the pod was confirmed dead: retention runs from then on.
	ConfirmedAt Instant     `json:"confirmed_at,omitzero"`
	Left        []Residue   `json:"left,omitempty"`
	Remove      content.Set `json:"-"`               // of the intent that is open
	Ordered     bool        `json:"-"`               // an operator ordered the step that is open, also one without a login
	Err         string      `json:"error,omitempty"` // why the last step failed, at FailedAt
	FailedAt    Instant     `json:"failed_at,omitzero"`
	// Failures counts the cleans and purges that have failed in a row, 0 if the last that failed was a restore. Partly is
	// true if one of them has removed something.
	Failures   int    `json:"failures,omitempty"`
	Partly     bool   `json:"partly,omitempty"`
	By         *User  `json:"by,omitempty"`
	Quarantine string `json:"-"` // the quarantine's directory at the move
}

// Restoration is that a pod was restored.
type Restoration struct {
	At Instant `json:"at"`
	// Operator is true if an operator restored it: it is kept until `sweep UID` names it, or the kubelet has not reported
	// it for an hour. Otherwise it was alive, and its next hold is ten times as long for each time, up to a day.
	Operator bool `json:"operator"`
	Times    int  `json:"times"`
}

// User is who gave a command, as far as the node shows it, for records. No rule uses it.
type User struct {
	UID      *uint32 `json:"uid,omitempty"`   // the user who logged in: pam_loginuid(8)
	Login    string  `json:"login,omitempty"` // the name of UID
	SudoUser string  `json:"sudo_user,omitempty"`
}

// EventKind is what an event records.
type EventKind string

// The events. Each action has an intent, written before the change, and results.
const (
	EventMoving      EventKind = "moving"
	EventQuarantined EventKind = "quarantined"
	EventNotMoved    EventKind = "not-moved"
	EventRestoring   EventKind = "restoring"
	EventRestored    EventKind = "restored"
	EventNotRestored EventKind = "not-restored" // the entry is where it was, and in the phase in which it was
	EventConflict    EventKind = "conflict"     // the pod is alive and has another directory
	EventCleaning    EventKind = "cleaning"
	EventCleaned     EventKind = "cleaned" // some is left
	EventRemoved     EventKind = "removed" // nothing is left
	EventPurging     EventKind = "purging"
	EventFailed      EventKind = "failed"
	EventBreaker     EventKind = "breaker" // the circuit breaker opened
	EventResumed     EventKind = "resumed" // an operator closed it
	EventUnmounting  EventKind = "unmounting"
	EventUnmounted   EventKind = "unmounted"
	EventCNIRemoving EventKind = "cni-removing"
	EventCNIRemoved  EventKind = "cni-removed"
	EventReleased    EventKind = "released" // a restored pod may be judged again
	EventKept        EventKind = "kept"     // needs an operator: once per change, not per scan
	EventStarted     EventKind = "started"
	EventStopped     EventKind = "stopped"
)

// Event is what was planned or done: one entry of the ledger, and a record of the journal.
type Event struct {
	Seq       int64          `json:"seq"` // counts up over the ledger's whole life
	Kind      EventKind      `json:"kind"`
	At        Instant        `json:"at"`
	By        *User          `json:"by,omitempty"`
	UID       parsers.PodUID `json:"uid,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod_name,omitempty"`
	Static    bool           `json:"static,omitempty"`
	Operator  bool           `json:"operator,omitempty"` // of restored: an operator asked for it
	Entry     string         `json:"entry,omitempty"`
	// Quarantine is the quarantine's directory, of moving: the ledger sets it.
	Quarantine string            `json:"quarantine,omitempty"`
	Other      string            `json:"other,omitempty"` // the entry of the directory that Exchange has replaced, if any of it is left
	OtherID    FileID            `json:"other_id,omitzero"`
	ID         FileID            `json:"id,omitzero"`
	Kubelet    int               `json:"kubelet,omitempty"` // its PID
	Reasons    []Reason          `json:"reasons,omitempty"`
	Remove     content.Set       `json:"remove,omitempty"`
	Taken      map[string]Tally  `json:"taken,omitempty"` // by class
	Left       []Residue         `json:"left,omitempty"`
	VolData    map[string]string `json:"vol_data,omitempty"`
	Lost       bool              `json:"lost,omitempty"` // of failed: another process removed the entry, which ends it
	Mounts     []string          `json:"mounts,omitempty"`
	Archive    string            `json:"archive,omitempty"` // the tar of removed CNI files
	Err        string            `json:"error,omitempty"`
	Undo       string            `json:"undo,omitempty"` // the command that reverts it
}

// intents are the events that are written before a change. Each is followed by a result.
var intents = map[EventKind]bool{
	EventMoving: true, EventRestoring: true, EventCleaning: true, EventPurging: true, EventUnmounting: true, EventCNIRemoving: true,
}

var results = map[EventKind]bool{
	EventQuarantined: true, EventNotMoved: true, EventRestored: true, EventNotRestored: true, EventConflict: true,
	EventCleaned: true, EventRemoved: true, EventFailed: true, EventBreaker: true, EventResumed: true, EventUnmounted: true,
	EventCNIRemoved: true, EventReleased: true, EventKept: true, EventStarted: true, EventStopped: true,
}

// Intent reports whether the event is written before a change, and not shown to operators.
func (k EventKind) Intent() bool { return intents[k] }

// Known reports whether this program knows the kind.
func (k EventKind) Known() bool { return intents[k] || results[k] }
