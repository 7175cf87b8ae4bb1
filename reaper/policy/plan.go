package policy

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// ActionKind is one way to change the disk. There are no others.
type ActionKind string

// Park moves a pod directory from the pods directory into quarantine, Clear only what lies
// in one leaf of it, and PutBack moves either back. Strip removes, in quarantine, what holds no user's data; Purge also what is
// ephemeral, or all of it.
const (
	Park    ActionKind = "park"
	Clear   ActionKind = "clear"
	PutBack ActionKind = "put-back"
	Strip   ActionKind = "strip"
	Purge   ActionKind = "purge"
	// RemoveSandbox asks the runtime to stop and remove one sandbox that has stopped already:
	// that runs CNI DEL. It is the one action that changes nothing on the disk itself.
	RemoveSandbox ActionKind = "remove-sandbox"
)

// Action is one change to one pod. It is used once.
type Action struct {
	Kind  ActionKind
	UID   parsers.PodUID
	Entry string // the name in quarantine
	// ID is the directory that was judged; another one that has taken its name is left
	// alone. The zero value means any, and is for PutBack and later only.
	ID DirID
	// Leaf is what Clear is to empty, from the pod directory on, or where what lies in the
	// entry came from.
	Leaf string
	Take ClassSet
	Why  []Why
	// Sandbox is the one that RemoveSandbox is about.
	Sandbox Sandbox
	// Parked is when the entry was parked: what is younger than that uses the directory that
	// was made again. PutBack only.
	Parked Instant
	// ByPerson is true for what a person asked for: a pod that a person restored is kept.
	ByPerson bool
	// Manifest is the text that is laid beside the entry in quarantine, so that a person
	// without our state directory still knows what it is. Park and Clear only.
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

// Gate is what stops enforcing whatever the evidence says.
type Gate struct {
	Breaker bool // open: a parked pod turned out to live, and no person has said go on
	Proven  bool // one pod has been parked and confirmed since the start
	InWork  int  // pods parked now that have yet to prove dead, or whose kubelet has yet to finish
}

// takeOf turns the verdicts of one look into batches, and adds to the verdicts that are Reap, or
// have leaves to clear or sandboxes to remove, and are not planned the reason for that. entry
// names what is taken of a pod in quarantine, each time anew.
//
// A pod whose leaves are cleared, or whose sandboxes the runtime is to remove, counts as one
// that is taken: it was judged by the same eyes. Sandboxes have batches of their own, and their
// pods' directories come not before another look.
func takeOf(
	ev []Evidence, verdicts []Verdict, n Node, g Gate, r Rules, entry func(parsers.PodUID, ActionKind) string,
) (take, sandboxes []Batch) {
	limit := len(verdicts)
	if r.MaxPerLook > 0 {
		limit = min(limit, r.MaxPerLook)
	}
	if !g.Proven {
		limit = min(limit, max(0, 1-g.InWork))
	}
	var actions, removals []Action
	taken := 0
	for i := range verdicts {
		v := &verdicts[i]
		if len(v.Sandboxes) == 0 && (ev[i].RuntimeOnly || v.Decision != Reap && len(v.Leaves) == 0) {
			continue
		}
		if why, stopped := gate(n, g, r); stopped {
			v.keep(Keep, why.Reason, why.Detail)
			continue
		}
		if taken >= limit {
			v.keep(Wait, ReasonLimit, limitDetail(g, r))
			continue
		}
		taken++
		for _, s := range v.Sandboxes {
			removals = append(removals, Action{Kind: RemoveSandbox, UID: v.UID, Why: v.Why, Sandbox: s, Evidence: &ev[i]})
		}
		for _, leaf := range v.Leaves {
			actions = append(actions, Action{
				Kind: Clear, UID: v.UID, Entry: entry(v.UID, Clear), ID: ev[i].ID, Leaf: leaf, Why: v.Why, Evidence: &ev[i],
			})
		}
		if v.Decision != Reap {
			continue
		}
		actions = append(actions, Action{
			Kind: Park, UID: v.UID, Entry: entry(v.UID, Park), ID: ev[i].ID, Why: v.Why, Evidence: &ev[i],
		})
	}
	return Batches(actions), Batches(removals)
}

// Batches cuts actions into batches of at most BatchSize.
func Batches(actions []Action) []Batch {
	var batches []Batch
	for batch := range slices.Chunk(actions, BatchSize) {
		batches = append(batches, Batch{Actions: batch})
	}
	return batches
}

// Undoing leaves of the actions on what lies in quarantine only those that put a pod back:
// all that the open breaker allows. One pod that turned out to live says that the others
// may have been misjudged in the same way, so nothing of them is removed either.
func Undoing(actions []Action) []Action {
	return slices.DeleteFunc(actions, func(a Action) bool { return a.Kind != PutBack })
}

// Removes reports whether the action empties what lies in quarantine.
func (a Action) Removes() bool { return a.Kind == Strip || a.Kind == Purge }

// Unmounted leaves of a batch what a scan of the mounts, made immediately before, lets go: since
// the look read them it has read directories, and batches before this one have taken their time.
// What is mounted by now, or not known, stays for the next look.
func (b Batch) Unmounted(mounts map[parsers.PodUID]Fact) Batch {
	return Batch{Actions: slices.DeleteFunc(slices.Clone(b.Actions), func(a Action) bool {
		return a.Removes() && mounts[a.UID].Truth != No
	})}
}

// Moved reports whether something went to quarantine that a mount may have gone along with.
func (o Outcome) Moved() bool {
	return (o.Action.Kind == Park || o.Action.Kind == Clear) && o.Result == Done
}

// PutBacks are the way back of what was just moved and a scan of the mounts hits, now that no
// path leads there: a mount that came between look and rename was carried along. A scan that
// failed counts as a hit.
func PutBacks(moved []Outcome, mounts map[parsers.PodUID]Fact) []Batch {
	var actions []Action
	for _, o := range moved {
		if f := mounts[o.Action.UID]; f.Truth != No {
			actions = append(actions, back(o, f))
		}
	}
	return Batches(actions)
}

// back is the way back of what was just taken of a pod that the mount scan hit, or of which
// it could not say that nothing is mounted.
func back(o Outcome, mounted Fact) Action {
	why := Why{ReasonMounted, mounted.Detail}
	if mounted.Truth != Yes {
		why = Why{ReasonMountsUnknown, unknownDetail(FactMounted, mounted)}
	}
	id := o.Action.ID
	if o.Action.Kind == Clear {
		id = o.ID
	}
	return Action{
		Kind: PutBack, UID: o.Action.UID, Entry: o.Action.Entry, ID: id, Leaf: o.Action.Leaf,
		Why: []Why{why}, Evidence: o.Action.Evidence,
	}
}

const breakerOpen = "a parked pod turned out to live; orphan-reaper quarantine resume lets it go on"

// Gate keeps what the rules would let go where something stops all enforcing.
func (v *Verdict) Gate(n Node, g Gate, r Rules) {
	if why, stopped := gate(n, g, r); stopped && v.Decision == Reap {
		v.keep(Keep, why.Reason, why.Detail)
	}
}

func gate(n Node, g Gate, r Rules) (Why, bool) {
	switch {
	case n.MayEnforce.Truth != Yes:
		return Why{ReasonNamespaces, n.MayEnforce.Detail}, true
	case n.Agrees.Truth != Yes:
		return Why{ReasonContradiction, n.Agrees.Detail}, true
	case g.Breaker:
		return Why{ReasonBreaker, breakerOpen}, true
	case r.Observe:
		return Why{ReasonObserve, "mode observe changes nothing"}, true
	}
	return Why{}, false
}

func limitDetail(g Gate, r Rules) string {
	if !g.Proven {
		return "the first pod after a start is confirmed before the rest"
	}
	return fmt.Sprintf("at most %d in one look", r.MaxPerLook)
}

// Result is how one action ended.
type Result string

// Done: as planned. Gone: somebody else was faster (the kubelet removes what it can), no
// error; look again. Refused: it was left, or put back, as it was, with a reason. Partly:
// something is left in quarantine that may not go, or of a cleared leaf cannot go back. Failed: an error that a person should
// see. Conflict: put back by exchange, since the directory had been made again.
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
	// Taken is what was removed, by class; Left is what is still there.
	Taken map[Class]Tally
	Left  []Residue
	// VolData holds each removed vol_data.json's content by its path.
	VolData map[string]string
	// ID is the directory that Clear has made in quarantine, or that stays there.
	ID DirID
	// Conflict is the quarantine name of the directory that had been made again. Where it is
	// the action's own entry, that one stays as the conflict, and the newer is left alone.
	Conflict string
}

// Ended reports whether the action reached its goal: nothing is left to do for it.
func (o Outcome) Ended() bool {
	return o.Result == Done || o.Result == Gone || o.Result == Conflict
}

// NotBegun reports whether the runtime took too long for the sandboxes before this one.
func (o Outcome) NotBegun() bool {
	return o.Result == Refused && len(o.Why) > 0 && o.Why[0].Reason == ReasonLimit
}
