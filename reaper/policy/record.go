package policy

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Record is one entry of the ledger, which the journal shows.
type Record struct {
	Seq       int64            `json:"seq"` // counts up over the ledger's whole life
	Kind      Kind             `json:"kind"`
	At        Instant          `json:"at"`
	By        *User            `json:"by,omitempty"` // who gave the command; nil for the daemon, or if not known
	UID       parsers.PodUID   `json:"uid,omitempty"`
	Namespace string           `json:"namespace,omitempty"`
	PodName   string           `json:"pod_name,omitempty"`
	Static    bool             `json:"static,omitempty"` // a static pod: it may return under its UID
	Entry     string           `json:"entry,omitempty"`  // name in quarantine
	ID        DirID            `json:"id,omitzero"`
	Kubelet   KubeletID        `json:"kubelet,omitzero"`
	Leaf      string           `json:"leaf,omitempty"` // the directory that was cleared
	Decision  Decision         `json:"decision,omitempty"`
	Why       []Why            `json:"why,omitempty"`
	Taken     map[string]Tally `json:"taken,omitempty"` // by class
	// TakeAll is set in the intent of a purge that an operator asked for: data goes, too.
	TakeAll bool      `json:"take_all,omitempty"`
	Left    []Residue `json:"left,omitempty"`
	// VolData holds each removed vol_data.json's content by its path.
	VolData map[string]string `json:"vol_data,omitempty"`
	// Mounts are what an operator's command is to unmount, or has unmounted.
	Mounts  []Mount  `json:"mounts,omitempty"`
	Archive string   `json:"archive,omitempty"` // of CNI files: the name of their archive
	Pods    []string `json:"pods,omitempty"`    // where it is about several: some of them, NAMESPACE/NAME
	// Repaired counts the cache files among Taken that were empty or unreadable, and Runtimes
	// names those whose teardown they may hinder, with their versions.
	Repaired int64    `json:"repaired,omitempty"`
	Runtimes []string `json:"runtimes,omitempty"`
	// Lines is how many lines the kubelet wrote about the pod, or about all PodCount pods, LastLine when
	// the last of them was written, and Gone when the pod's directory was gone.
	Lines    int64     `json:"lines,omitempty"`
	PodCount int64     `json:"pod_count,omitempty"`
	LastLine time.Time `json:"last_line,omitzero"`
	Gone     time.Time `json:"gone,omitzero"`
	Err      string    `json:"error,omitempty"`
	Undo     string    `json:"undo,omitempty"` // the command that reverts it
	// Merge are the commands with which an operator brings what lies in quarantine into the
	// directory that the pod has now.
	Merge []string `json:"merge,omitempty"`
	Text  string   `json:"text"` // one line for display
}

// FullName is NAMESPACE/NAME, or the name alone: etc-hosts has no namespace.
func (r Record) FullName() string { return FullName(r.Namespace, r.PodName) }

// FullName joins a pod's namespace and name, of which either may not be known.
func FullName(namespace, name string) string {
	if namespace == "" || name == "" {
		return name
	}
	return namespace + "/" + name
}

// EntryState is one quarantine entry, folded from the ledger.
type EntryState struct {
	Entry       string
	UID         parsers.PodUID
	Phase       Phase
	Namespace   string
	PodName     string
	Static      bool // a static pod: it may return under its UID
	Parked      Parked
	ID          DirID
	Leaf        string // the directory below pods/UID whose content this is; "": a whole pod directory
	Tried       bool   // it could not be put back there
	ConfirmedAt Instant
	Why         []Why
	Left        []Residue
	Taken       map[string]Tally
	VolData     map[string]string
	// Restored is set if an operator put the pod back: the UID is then kept until the operator revokes that.
	Restored bool
	// Failed is why the last step with the entry failed, nil if it did not.
	Failed []Why
	// TakeAll is set while a purge is under way that an operator asked for: data goes, too.
	TakeAll bool
	By      *User // who asked for what is under way
	// Merge is what an operator can do about an entry whose pod lives again.
	Merge []string
	// Rests is true for an entry of whose pod a look gathers signs of life only. The loop sets it, it is not folded.
	Rests bool
}

// Action returns an action on the entry, with what the ledger has of its pod as the evidence.
func (s EntryState) Action(kind ActionKind) Action {
	return Action{
		Kind: kind, UID: s.UID, Entry: s.Entry, ID: s.ID, Leaf: s.Leaf, Parked: s.Parked.At,
		Evidence: &Evidence{UID: s.UID, Namespace: s.Namespace, PodName: s.PodName, Static: s.Static},
	}
}

// Undo is the command that reverts a removal as far as possible.
func Undo(uid parsers.PodUID) string { return "orphan-reaper quarantine restore " + string(uid) }

// Intent is the record that stands in the ledger before the action changes the disk.
func Intent(a Action, n Node, now Instant) Record {
	r := recordOf(a, n, now)
	r.Kind, r.TakeAll = deedOf(a).intent, a.Kind == Purge && a.Take == contents.TakeAll
	if r.Kind.means().Restores {
		r.Undo = Undo(a.UID)
	}
	return r
}

func recordOf(a Action, n Node, now Instant) Record {
	r := Record{At: now, By: a.By, UID: a.UID, Entry: a.Entry, ID: a.ID, Leaf: a.Leaf, Why: a.Why, Kubelet: n.KubeletID}
	if a.Evidence != nil {
		r.Namespace, r.PodName = a.Evidence.Namespace, a.Evidence.PodName
		r.Static = a.Evidence.Static || a.Evidence.Facts[FactStaticPod].Truth == Yes // the last question may have seen its manifest
	}
	return r
}

// Recorded returns the records of the outcome of one action: one, or two for a conflict.
func Recorded(o Outcome, n Node, now Instant) []Record {
	r := recordOf(o.Action, n, now)
	if len(o.Why) > 0 {
		r.Why = o.Why
	}
	r.Err, r.Left, r.VolData = o.Err, o.Left, o.VolData
	for class, t := range o.Taken {
		if r.Taken == nil {
			r.Taken = map[string]Tally{}
		}
		r.Taken[class.String()] = t
	}
	r.Kind = after(o)
	if o.Stopped && r.Kind == KindFailed {
		return stillOpen(r, o)
	}
	if o.ID != (DirID{}) {
		r.ID = o.ID
	}
	if r.Kind.means().Restores {
		r.Undo = Undo(o.Action.UID)
	}
	switch o.Conflict {
	case "":
		return []Record{r}
	case o.Action.Entry:
		// It stays in quarantine: the pod has another directory.
		r.Kind = KindConflict
		if e := o.Action.Evidence; e != nil && r.Leaf == "" {
			was := EntryState{UID: r.UID, Entry: r.Entry, ID: r.ID, Left: e.Residue}
			again := *e
			again.Facts[FactRemade].Truth = Yes // since the look, at the latest
			r.Merge, r.Left = Frozen(again, was, Verdict{}, n, now).Merge, e.Residue
		}
		return []Record{r}
	}
	c := r
	c.Kind, c.Entry, c.ID, c.Err = KindConflict, o.Conflict, DirID{}, ""
	return []Record{r, c}
}

// stillOpen returns the record of an action that the end of the program stopped. The intent stays open, and the next start
// goes on with it. If something was removed already, the intent is written once more, with that.
func stillOpen(r Record, o Outcome) []Record {
	if len(r.Taken)+len(r.VolData) == 0 {
		return nil
	}
	intent := Intent(o.Action, Node{KubeletID: r.Kubelet}, r.At)
	intent.Taken, intent.VolData = r.Taken, r.VolData
	return []Record{intent}
}

// Recover closes an intent whose outcome is not in the ledger, by where the directory is found on disk. It returns the
// outcome's record, or the action that ends it, or neither if a look must come first.
func Recover(e EntryState, inQuarantine bool, now Instant) (*Record, *Action) {
	d, _ := e.Phase.deed()
	do := d.away
	if inQuarantine {
		do = d.here
	}
	a := e.Action(do.action)
	a.Why, a.ByPerson, a.By = e.Why, e.Phase == PhaseRestoring, KnownUser(e.By)
	switch {
	case do.record != "":
		r := recordOf(a, Node{}, now)
		r.Kind = do.record
		if r.Kind == KindParked {
			r.Kubelet, r.Undo = e.Parked.Kubelet, Undo(a.UID)
		}
		return &r, nil
	case do.action != "":
		return nil, &a
	}
	return nil, nil
}

// ActionKind is one way to change the disk. There are no others.
type ActionKind string

// Park moves a pod directory to quarantine, Clear only the content of one leaf, and PutBack moves either back. In
// quarantine, Strip removes what holds no user's data; Purge also what is ephemeral, or all of it.
const (
	Park    ActionKind = "park"
	Clear   ActionKind = "clear"
	PutBack ActionKind = "put-back"
	Strip   ActionKind = "strip"
	Purge   ActionKind = "purge"
)

// Action is one change to one pod. It is used once.
type Action struct {
	Kind  ActionKind
	UID   parsers.PodUID
	Entry string // the name in quarantine
	// ID is the directory that was judged; another one of that name stays. The zero value means any, and is for PutBack
	// and later only.
	ID DirID
	// Leaf is what Clear is to empty, from the pod directory on, or where the entry's content came from.
	Leaf string
	Take contents.ClassSet
	Why  []Why
	// Parked is when the entry was parked: what is younger than that uses the directory that
	// was made again. PutBack only.
	Parked Instant
	// ByPerson is true for what an operator asked for: a pod that an operator restored is kept.
	ByPerson bool
	By       *User // who asked for what a crash cut short; the ledger knows who asks now
	// Manifest is the text of the file beside the entry in quarantine, which describes it without our state directory.
	// Park and Clear only.
	Manifest []byte
	// Evidence is what the action was judged from, for the record.
	Evidence *Evidence
}

// BatchSize is the most actions of one batch: facts, scans and syncs are per batch.
const BatchSize = 256

// Batch is what one step changes: the remover carries it out, a dry run prints it.
type Batch struct {
	Actions []Action
}

// Result is how one action ended.
type Result string

// Done: as planned. Gone: the kubelet, or another process, removed it first. Refused: unchanged, or put back, with a reason.
// Partly: something stays in quarantine that may not be removed, or of a cleared leaf cannot go back. Failed: an error for
// an operator. Conflict: put back by exchange, since the directory had been made again.
const (
	Done     Result = "done"
	Gone     Result = "gone"
	Refused  Result = "refused"
	Partly   Result = "partly"
	Failed   Result = "failed"
	Conflict Result = "conflict"
)

// Tally counts directory entries and allocated bytes.
type Tally struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Add adds o to t.
func (t *Tally) Add(o Tally) { t.Entries += o.Entries; t.Bytes += o.Bytes }

// Outcome is what one action did to the disk.
type Outcome struct {
	Action Action
	Result Result
	Why    []Why  // for Refused and Failed: what stopped it
	Err    string // for Refused and Failed: the error in words, with the path
	// At is just before the batch was begun: what is younger than that was made in or after it.
	At Instant
	// Taken is what was removed, by class; Left is what is still there.
	Taken map[contents.Class]Tally
	Left  []Residue
	// VolData holds each removed vol_data.json's content by its path.
	VolData map[string]string
	// ID is the directory that Clear has made in quarantine, or that stays there.
	ID DirID
	// Conflict is the quarantine name of the directory that had been made again. Where it is
	// the action's own entry, that one stays as the conflict, and the newer is left alone.
	Conflict string
	// Remade is set where the directory had been made again and there is no conflict, or not yet.
	Remade bool
	// Withdrawn is set where the last question, before anything was tried, found the pod no longer known to be dead.
	Withdrawn bool
	// Stopped is set where the program had to end before the action had ended.
	Stopped bool
}

// Ended reports whether the action reached its goal: nothing is left to do for it.
func (o Outcome) Ended() bool {
	return o.Result == Done || o.Result == Gone || o.Result == Conflict
}

// MadeAgain reports whether a pod, on its way to quarantine or back, met a directory that its kubelet had made again: it
// lived. After an operator's restore only a new directory that is used shows a wrong judgement.
func (o Outcome) MadeAgain() bool {
	if o.Action.ByPerson {
		return o.Action.Kind == PutBack && o.Conflict != "" && o.Conflict == o.Action.Entry
	}
	return (o.Action.Kind == Park || o.Action.Kind == PutBack) && (o.Remade || o.Conflict != "")
}
