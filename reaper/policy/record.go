package policy

import (
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Kind says what a record tells. Each kind has a MESSAGE_ID of its own in the journal.
type Kind string

// The kinds of records. Those that end in "ing" are intents: they are written to the
// ledger before the disk changes, and are not shown to people.
const (
	KindKept            Kind = "kept"             // a verdict, when its reasons changed
	KindParking         Kind = "parking"          // intent
	KindParked          Kind = "parked"           // moved to quarantine
	KindNotParked       Kind = "not-parked"       // refused, or the kubelet was faster
	KindPutting         Kind = "putting"          // intent: back to the pods directory
	KindPutBack         Kind = "put-back"         // back in the pods directory
	KindClearing        Kind = "clearing"         // intent
	KindCleared         Kind = "cleared"          // what lay in one leaf is in quarantine, and stays there
	KindNotCleared      Kind = "not-cleared"      // refused, or there was nothing in it
	KindStripping       Kind = "stripping"        // intent
	KindStripped        Kind = "stripped"         // what holds no data is gone, the rest stays in quarantine
	KindRemoved         Kind = "removed"          // nothing is left of it
	KindPurging         Kind = "purging"          // intent
	KindRestoring       Kind = "restoring"        // intent, by a person
	KindRestored        Kind = "restored"         // by a person
	KindRemovingSandbox Kind = "removing-sandbox" // intent
	KindRemovedSandbox  Kind = "removed-sandbox"  // by the runtime, on our word
	KindKeptSandbox     Kind = "kept-sandbox"     // it is gone, or no longer what the look has seen
	KindConflict        Kind = "conflict"         // of two directories of one pod, one stays in quarantine
	KindFailed          Kind = "failed"           // an action that a person should look at
	KindBreaker         Kind = "breaker"          // enforcing stopped
	KindResumed         Kind = "resumed"          // a person let it go on
	KindSweeping        Kind = "sweeping"         // intent: files of CNI, archived
	KindSwept           Kind = "swept"            // files of CNI, one batch
	KindUnswept         Kind = "unswept"          // files of CNI put back by a person
	KindStarted         Kind = "started"          // the daemon
	KindStopped         Kind = "stopped"          // the daemon
)

// Known says whether this program knows the kind. A ledger with another one tells of
// something that it would misread: what a newer program did.
func (k Kind) Known() bool {
	switch k {
	case KindKept, KindParking, KindParked, KindNotParked, KindPutting, KindPutBack, KindClearing, KindCleared, KindNotCleared,
		KindStripping, KindStripped, KindRemoved, KindPurging, KindRestoring, KindRestored, KindRemovingSandbox, KindRemovedSandbox,
		KindKeptSandbox, KindConflict, KindFailed, KindBreaker, KindResumed, KindSweeping, KindSwept, KindUnswept, KindStarted, KindStopped:
		return true
	}
	return false
}

// Record is one entry of the ledger, and what the journal shows of it. The ledger is the
// truth; the journal is its picture.
type Record struct {
	Seq       int64            `json:"seq"` // counts up over the ledger's whole life
	Kind      Kind             `json:"kind"`
	At        Instant          `json:"at"`
	UID       parsers.PodUID   `json:"uid,omitempty"`
	Namespace string           `json:"namespace,omitempty"`
	PodName   string           `json:"pod_name,omitempty"`
	Entry     string           `json:"entry,omitempty"` // name in quarantine
	ID        DirID            `json:"id,omitzero"`
	Kubelet   KubeletID        `json:"kubelet,omitzero"`
	Leaf      string           `json:"leaf,omitempty"`    // the directory that was cleared
	Sandbox   string           `json:"sandbox,omitempty"` // its ID, where the record is about one
	Decision  Decision         `json:"decision,omitempty"`
	Why       []Why            `json:"why,omitempty"`
	Taken     map[string]Tally `json:"taken,omitempty"` // by class
	// TakeAll is set in the intent of a purge that a person asked for: data goes, too.
	TakeAll bool      `json:"take_all,omitempty"`
	Left    []Residue `json:"left,omitempty"`
	// VolData holds each removed vol_data.json's content by its path.
	VolData map[string]string `json:"vol_data,omitempty"`
	Archive string            `json:"archive,omitempty"` // of CNI files: the name of their archive
	Pods    []string          `json:"pods,omitempty"`    // of CNI files: some of the pods, NAMESPACE/NAME
	// Repaired counts the cache files among Taken that were empty or unreadable, and Runtimes
	// names those whose teardown they may hinder, with their versions.
	Repaired int64    `json:"repaired,omitempty"`
	Runtimes []string `json:"runtimes,omitempty"`
	Err      string   `json:"error,omitempty"`
	Undo     string   `json:"undo,omitempty"` // the command that takes it back
	// Merge are the commands with which a person brings what lies in quarantine into the
	// directory that the pod has now.
	Merge []string `json:"merge,omitempty"`
	Text  string   `json:"text"` // one line for people
}

// FullName is NAMESPACE/NAME, or the name alone: the file etc-hosts tells no namespace.
func (r Record) FullName() string { return FullName(r.Namespace, r.PodName) }

// FullName joins a pod's namespace and name, of which either may not be known.
func FullName(namespace, name string) string {
	if namespace == "" || name == "" {
		return name
	}
	return namespace + "/" + name
}

// Phase is where a quarantine entry stands, as the ledger tells it.
type Phase string

// The phases. PhaseParking, PhaseClearing, PhasePutting, PhaseStripping, PhasePurging and
// PhaseRestoring are intents whose outcome is not written down: after a crash, disk and Recover settle them.
const (
	PhaseNone      Phase = ""
	PhaseParking   Phase = "parking"
	PhaseParked    Phase = "parked"
	PhaseClearing  Phase = "clearing"
	PhasePutting   Phase = "putting"
	PhaseStripping Phase = "stripping"
	PhaseHeld      Phase = "held" // confirmed; what is left stays until retention or a person
	PhasePurging   Phase = "purging"
	PhaseRestoring Phase = "restoring"
	PhaseConflict  Phase = "conflict" // never purged but by a person
	// PhaseUnlisted: it lies in quarantine and the ledger does not know it, since the state
	// directory was lost or is another one. Never folded; a person decides.
	PhaseUnlisted Phase = "unlisted"
	// PhaseSweeping: no pod's entry but an archive of CNI files, named by Entry, that are
	// being taken. What a crash left of that is finished from the archive.
	PhaseSweeping Phase = "sweeping"
	PhaseGone     Phase = "gone" // no longer in quarantine
)

// Intent says whether the phase is an intent whose outcome is not written down.
func (p Phase) Intent() bool {
	switch p {
	case PhaseParking, PhaseClearing, PhasePutting, PhaseStripping, PhasePurging, PhaseRestoring:
		return true
	case PhaseNone, PhaseParked, PhaseHeld, PhaseConflict, PhaseUnlisted, PhaseSweeping, PhaseGone:
	}
	return false
}

// InQuarantine says whether the phase is that of something that lies in quarantine.
func (p Phase) InQuarantine() bool {
	return p != PhaseNone && p != PhaseGone && p != PhaseSweeping
}

// EntryState is one quarantine entry, folded from the ledger.
type EntryState struct {
	Entry     string
	UID       parsers.PodUID
	Phase     Phase
	Namespace string
	PodName   string
	Parked    Parked
	ID        DirID
	Leaf      string // the directory below pods/UID whose content this is; "": a whole pod directory
	HeldSince Instant
	Why       []Why
	Left      []Residue
	Taken     map[string]Tally
	VolData   map[string]string
	// Restored is set where a person put the pod back: the UID is then kept for ever.
	Restored bool
	// TakeAll is set while a purge is under way that a person asked for: data goes, too.
	TakeAll bool
	// Merge is what a person can do about an entry whose pod lives again.
	Merge []string
	// Rests is true for an entry that a look takes no further: it gathers signs of life of the
	// pod, and does not read the directory. The loop sets it, it is not folded.
	Rests bool
}

// Fold applies one record to the states of the entries, keyed by Entry. A record without
// an entry changes nothing.
func Fold(states map[string]*EntryState, r Record) {
	if r.Entry == "" {
		return
	}
	s := states[r.Entry]
	if s == nil {
		s = &EntryState{Entry: r.Entry, UID: r.UID}
		states[r.Entry] = s
	}
	switch r.Kind {
	case KindParking:
		s.Phase, s.ID, s.Why, s.Namespace, s.PodName = PhaseParking, r.ID, r.Why, r.Namespace, r.PodName
		s.Parked = Parked{At: r.At, Kubelet: r.Kubelet}
	case KindParked:
		s.Phase, s.Parked = PhaseParked, Parked{At: r.At, Kubelet: r.Kubelet}
	case KindPutting:
		s.Phase = PhasePutting
	case KindRestoring:
		s.Phase = PhaseRestoring
	case KindClearing:
		// Which directory was made in quarantine is not known before it is.
		s.Phase, s.ID, s.Leaf, s.Why, s.Namespace, s.PodName = PhaseClearing, DirID{}, r.Leaf, r.Why, r.Namespace, r.PodName
		s.Parked = Parked{At: r.At, Kubelet: r.Kubelet}
	case KindCleared:
		s.Phase, s.HeldSince, s.Left, s.ID = PhaseHeld, r.At, r.Left, r.ID
	case KindPutBack, KindNotParked, KindNotCleared:
		s.Phase = PhaseGone
	case KindRestored:
		s.Phase, s.Restored = PhaseGone, true
	case KindStripping:
		s.Phase = PhaseStripping
	case KindStripped:
		s.Phase, s.HeldSince, s.Left, s.TakeAll = PhaseHeld, r.At, r.Left, false
		s.take(r)
	case KindPurging:
		s.Phase, s.TakeAll = PhasePurging, r.TakeAll
	case KindRemoved:
		s.Phase, s.Left = PhaseGone, nil
		s.take(r)
	case KindConflict:
		s.Phase, s.Merge = PhaseConflict, r.Merge
		if s.ID == (DirID{}) {
			s.ID = r.ID
		}
		if len(s.Left) == 0 {
			s.Left = r.Left
		}
	case KindRemovingSandbox, KindRemovedSandbox, KindKeptSandbox: // of no entry: the next look tells what came of it
	case KindSweeping:
		s.Phase = PhaseSweeping
	case KindSwept:
		s.Phase = PhaseGone
	case KindFailed, KindKept, KindBreaker, KindResumed, KindStarted, KindStopped, KindUnswept:
	}
}

func (s *EntryState) take(r Record) {
	if s.Taken == nil {
		s.Taken = map[string]Tally{}
	}
	for class, t := range r.Taken {
		sum := s.Taken[class]
		sum.Add(t)
		s.Taken[class] = sum
	}
	for path, text := range r.VolData {
		if s.VolData == nil {
			s.VolData = map[string]string{}
		}
		s.VolData[path] = text
	}
}
