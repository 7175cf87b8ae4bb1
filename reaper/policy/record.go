package policy

import (
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

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

// Undo is the command that takes a removal back as far as it can be taken back.
func Undo(a Action) string { return "orphan-reaper quarantine restore " + string(a.UID) }

// Intent is the record that stands in the ledger before the action changes the disk.
func Intent(a Action, n Node, now Instant) Record {
	r := recordOf(a, n, now)
	r.Kind, r.TakeAll = deedOf(a).intent, a.Kind == Purge && a.Take == TakeAll
	if r.Kind.means().Restores {
		r.Undo = Undo(a)
	}
	return r
}

func recordOf(a Action, n Node, now Instant) Record {
	r := Record{At: now, UID: a.UID, Entry: a.Entry, ID: a.ID, Leaf: a.Leaf, Sandbox: a.Sandbox.ID, Why: a.Why, Kubelet: n.KubeletID}
	if a.Evidence != nil {
		r.Namespace, r.PodName = a.Evidence.Namespace, a.Evidence.PodName
	}
	return r
}

// Recorded tells the outcome of one action, in one record or, for a conflict, two.
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
	if o.ID != (DirID{}) {
		r.ID = o.ID
	}
	if r.Kind.means().Restores {
		r.Undo = Undo(o.Action)
	}
	switch o.Conflict {
	case "":
		return []Record{r}
	case o.Action.Entry:
		// It stays in quarantine, whatever was to become of it: the pod has another directory.
		r.Kind = KindConflict
		if e := o.Action.Evidence; e != nil && r.Leaf == "" {
			was := EntryState{UID: r.UID, Entry: r.Entry, ID: r.ID, Left: e.Residue}
			again := *e
			again.Facts[FactRemade].Truth = Yes // since the look, at the latest
			r.Merge, r.Left = Frozen(again, was, ParkedVerdict{}, n, now).Merge, e.Residue
		}
		return []Record{r}
	}
	c := r
	c.Kind, c.Entry, c.ID, c.Err = KindConflict, o.Conflict, DirID{}, ""
	return []Record{r, c}
}

// Recover settles an intent whose outcome is not in the ledger, from where the directory
// is found on disk: a record that says how it ended, or the action that ends it, or
// neither, where a look must come first. An action on an entry that is no longer there
// changes nothing but what lay beside it, and its outcome says how it ended.
func Recover(e EntryState, inQuarantine bool, now Instant) (*Record, *Action) {
	do := stageOf(e.Phase).away
	if inQuarantine {
		do = stageOf(e.Phase).here
	}
	a := Action{
		Kind: do.action, UID: e.UID, Entry: e.Entry, ID: e.ID, Leaf: e.Leaf, Parked: e.Parked.At, Why: e.Why,
		ByPerson: e.Phase == PhaseRestoring, Evidence: &Evidence{UID: e.UID, Namespace: e.Namespace, PodName: e.PodName},
	}
	if a.Kind == Strip {
		a.Take = TakeStrip
	}
	switch {
	case do.record != "":
		r := recordOf(a, Node{}, now)
		r.Kind = do.record
		if r.Kind == KindParked {
			r.Kubelet, r.Undo = e.Parked.Kubelet, Undo(a)
		}
		return &r, nil
	case do.action != "":
		return nil, &a
	}
	return nil, nil
}
