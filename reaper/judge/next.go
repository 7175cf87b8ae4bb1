package judge

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// Input is all that one pass decides from.
type Input struct {
	// Snapshot has the pods directory and the pods of all entries.
	Snapshot Snapshot
	Entries  map[string]Entry // of the ledger, by name
	Holds    map[parsers.PodUID]Hold
	Logs     map[parsers.PodUID]Log
	Restored map[parsers.PodUID]Restoration
	// Refused are the moves that the disk refused.
	Refused  map[parsers.PodUID]Refusal
	Settings Settings
	Permit   Permit
	// ClockSet is when a scan was judged last before which the wall clock had been set forward: what was written until then may
	// be younger than its time. It is zero if that was not seen.
	ClockSet Instant
	Now      Instant
}

// Refusal is that a pod could not be moved.
type Refusal struct {
	At    Instant
	Err   string
	Times int // in a row
}

// Over reports whether the move may be tried again.
func (r Refusal) Over(now Instant) bool { return now.Age(r.At) >= backoff(r.Times) }

// Judged is a pod of the pods directory with its verdict.
type Judged struct {
	Pod
	Verdict
	// Facts are shown by explain; the zero value stands for facts that are not asked for.
	Facts Facts `json:"facts,omitzero"`
	// Next is when the hold ends, zero if none runs. Then the pod is moved, if the kubelet reports it.
	Next time.Time `json:"next,omitzero"`
}

// Hides reports whether this is kept, or alive again, while the kubelet reports it: at default verbosity it reports no other
// one. Of a name that is no UID no report is read; the kubelet reports it as long as it is there.
func (j *Judged) Hides() bool {
	return (j.Decision == Keep || j.Decision == IsAlive) && j.Facts[Reported].Truth == Yes ||
		j.UID == "" && j.Facts[Directory].Truth == Yes
}

// JudgedEntry is an entry of the quarantine with its verdict: Remove if Due removes something, Wait, Keep or IsAlive: an
// entry that is alive is restored, unless it needs an operator.
type JudgedEntry struct {
	Entry
	Verdict
	// Next is when confirm or retention ends, zero if neither runs.
	Next time.Time `json:"next,omitzero"`
	Due  *Move     `json:"-"` // nil if nothing is to be done now
}

// Plan is what one pass does next, in this order: a living pod waits for its restore, and a rename is quick.
type Plan struct {
	Restores []Move
	Moves    []Move
	Cleans   []Move
	// Conflicts are entries whose pod is alive and has another directory: the ledger notes it, and an operator decides.
	Conflicts []Move
	// Breaker has the restored pods that are reasons to open the circuit breaker.
	Breaker []Move
	// Next is after how long time alone may change something, 0 if nothing waits for that.
	Next time.Duration
}

// Decided is the result of Decide.
type Decided struct {
	Pods    []Judged
	Entries []JudgedEntry
	Holds   map[parsers.PodUID]Hold // for the next scan
	Plan    Plan
}

// Decide judges every pod of the snapshot and every entry of the quarantine, and plans what is due.
func Decide(in Input) Decided {
	d := Decided{Holds: map[parsers.PodUID]Hold{}}
	for name, e := range sorted(in.Entries) {
		j := judgeEntry(in, name, e)
		j.Advice = j.advice(in)
		if left := in.entryLeft(e); left > 0 {
			j.Next = in.Now.Add(left).Wall
			d.Plan.soon(left)
		}
		d.Entries = append(d.Entries, j)
		d.Plan.add(j)
	}
	for _, p := range in.Snapshot.Pods {
		if p.Present == No {
			continue
		}
		c := in.Case(p)
		v, facts := Dead(c)
		j := Judged{Pod: p, Verdict: v, Facts: facts}
		if p.UID != "" {
			hold := c.Hold.Next(c, facts)
			d.Holds[p.UID] = hold
			if left, ok := c.left(hold); ok && left > 0 {
				j.Next = in.Now.Add(left).Wall
				if v.Decision == Wait {
					d.Plan.soon(left)
				}
			}
		}
		d.Plan.move(in, p, &j.Verdict)
		j.Advice = in.advice(c, j.Verdict, facts)
		d.Pods = append(d.Pods, j)
	}
	return d
}

// soon notes that time alone may change a verdict after left.
func (p *Plan) soon(left time.Duration) {
	if p.Next == 0 || left < p.Next {
		p.Next = left
	}
}

func sorted(entries map[string]Entry) func(yield func(string, Entry) bool) {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return func(yield func(string, Entry) bool) {
		for _, name := range names {
			if !yield(name, entries[name]) {
				return
			}
		}
	}
}

// Case returns what the pod is judged by.
func (in *Input) Case(p Pod) Case {
	c := Case{Pod: p, Node: in.Snapshot.Node, Log: in.Logs[p.UID], Hold: in.Holds[p.UID], Settings: in.Settings, ClockSet: in.ClockSet, Now: in.Now}
	if r, ok := in.Restored[p.UID]; ok {
		c.Restored = &r
	}
	return c
}

// add plans what is due for an entry.
func (p *Plan) add(j JudgedEntry) {
	if j.Due == nil {
		return
	}
	switch j.Due.Action {
	case Restore, Exchange:
		p.Restores = append(p.Restores, *j.Due)
		if j.Phase == Quarantined && j.Decision == IsAlive && !j.Static {
			p.Breaker = append(p.Breaker, *j.Due)
		}
	case Leave:
		p.Conflicts = append(p.Conflicts, *j.Due)
	case Clean, Purge:
		p.Cleans = append(p.Cleans, *j.Due)
	case Quarantine:
	}
}

// move plans the move of a pod whose verdict is Remove, if the permit and the limit allow it; else the verdict says what
// stopped it.
func (p *Plan) move(in Input, pod Pod, v *Verdict) {
	if v.Decision != Remove {
		return
	}
	if why, stopped := in.Permit.Stopped(); stopped {
		if why.Reason != DryRun { // else the verdict is what this process would do
			v.keep(Keep, why.Reason, why.Detail)
		}
		return
	}
	if r, ok := in.Refused[pod.UID]; ok && !r.Over(in.Now) {
		v.ask(CannotMove, r.Err)
		return
	}
	if limit := in.Settings.MaxPerScan; limit > 0 && len(p.Moves) >= limit {
		v.keep(Wait, NextScan, "max_per_scan is reached: the next scan moves it")
		return
	}
	p.Moves = append(p.Moves, Move{
		Action: Quarantine, UID: pod.UID, ID: pod.ID, Namespace: pod.Namespace, PodName: pod.PodName, Static: pod.Static,
	})
}

// Pressed reports whether the file system nears the kubelet's eviction thresholds, nodefs.available<10% and
// nodefs.inodesFree<5%.
func (n *Node) Pressed() bool {
	return n.FreeBytes >= 0 && n.FreeBytes < 0.15 || n.FreeInodes >= 0 && n.FreeInodes < 0.08
}

// pressedRetention is the retention of emptyDirs and ephemeral CSI volumes while the disk runs full.
const pressedRetention = 10 * time.Minute

// retention returns how long what is ephemeral is still retained, and false if the entry has nothing ephemeral.
func (in *Input) retention(e Entry) (time.Duration, bool) {
	if !slices.ContainsFunc(e.Left, func(r Residue) bool { return r.Class == content.Ephemeral }) {
		return 0, false
	}
	retention := in.Settings.Retention
	if in.Snapshot.Node.Pressed() {
		retention = min(retention, pressedRetention)
	}
	return retention - in.Now.Age(e.ConfirmedAt), true
}
