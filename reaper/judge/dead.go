package judge

import (
	"fmt"
	"slices"
	"time"
)

// The times of the argument.
const (
	// reportAge is how old a report may be by every time that it carries. A kubelet repeats itself every 2 s.
	reportAge = 30 * time.Second
	// operation is longer than one operation of the kubelet's volume manager: a NodePublish may run for two minutes, and
	// writes vol_data.json first (csiTimeout, pkg/volume/csi/csi_plugin.go).
	operation = 3 * time.Minute
)

// Case is all that one pod in the pods directory is judged by.
type Case struct {
	Pod  Pod
	Node Node
	Log  Log // the last reports of the kubelet about this pod
	// Restored is the last time that the pod was restored from quarantine, nil if it never was.
	Restored *Restoration
	// Hold is what the scans before have seen.
	Hold     Hold
	Settings Settings
	ClockSet Instant // as Input has it
	Now      Instant
}

// Settings are the settings that judging uses. Package config has their defaults.
type Settings struct {
	Hold, Confirm, Retention time.Duration
	MaxPerScan               int // of moves, 0: no limit
	Observe                  bool
}

// row is one row of the table of facts.
type row struct {
	fact   FactName
	passes Truth // the one answer that lets the pod pass; every other keeps it
	reason ReasonName
}

// table has a row for each fact. A pod may be moved to quarantine if every row passes.
var table = [...]row{
	{Reported, Yes, NotReported},   // by the kubelet that runs now, in the last 30 s
	{Listed, No, IsListed},         // the kubelet's PodsAPI shows a pod that returns before the disk does
	{Running, No, IsRunning},       // no ready sandbox, and no container but exited ones
	{Cgroup, No, HasCgroup},        // an empty one, too: it is the first thing of a pod that returns
	{Mounted, No, IsMounted},       // nothing of it is mounted, in any mount namespace
	{Staged, No, IsStaged},         // nor staged for it alone
	{Directory, Yes, BadDirectory}, // a directory in which no operation of the kubelet may be under way; Eligible compares it with earlier scans
	{Restored, No, WasRestored},    // no operator has restored it
	{Eligible, Yes, OnHold},        // all of this, Reported excepted, at every scan for the time of the hold
}

// Dead returns the verdict on one pod of the pods directory: Remove if every row of the table lets it pass.
func Dead(c Case) (Verdict, Facts) {
	return c.judge(c.facts())
}

// judge applies the table to the facts, without the rows that are set aside.
func (c *Case) judge(facts Facts, aside ...FactName) (Verdict, Facts) {
	v := Verdict{Decision: Remove} // until a row keeps it
	if c.Pod.UID == "" {
		detail := fmt.Sprintf("%q in the pods directory is no pod UID", c.Pod.Name)
		if facts[Directory].Truth == Yes { // the kubelet reports it like a pod, and so hides the pods behind it
			v.ask(NotAUID, detail)
		} else {
			v.keep(Keep, NotAUID, detail)
		}
		return v, facts
	}
	if c.Node.KubeletKnown.Truth != Yes {
		v.keep(Keep, NoKubelet, c.Node.KubeletKnown.Detail)
	}
	for _, r := range table {
		f := facts[r.fact]
		switch {
		case f.Truth == r.passes || slices.Contains(aside, r.fact):
		case f.Busy:
			v.keep(Wait, NodeBusy, f.Detail)
		case f.Truth == Yes && f.Alive && !facts.leftover(r.fact):
			v.keep(IsAlive, r.reason, f.Detail)
		case r.fact == Eligible && f.Truth == No && v.otherThanReported(): // no hold runs, since something else keeps the pod
		case r.fact == Eligible && f.Truth == No:
			v.keep(Wait, r.reason, f.Detail)
		default:
			v.keep(Keep, r.reason, f.Detail)
			v.Reasons[len(v.Reasons)-1].Unknown = f.Truth == Unknown
		}
	}
	if v.Decision == IsAlive { // no kubelet reports a living pod
		v.Reasons = slices.DeleteFunc(v.Reasons, func(r Reason) bool { return r.Reason == NotReported })
	}
	busy := slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Reason == NodeBusy }) // it is asked again
	for i := range v.Reasons {
		if v.Decision == Keep && !busy && c.operator(v.Reasons[i].Reason, facts) {
			v.Reasons[i].Operator, v.Operator = true, true
		}
	}
	return v, facts
}

// leftover reports whether the fact is what a dead pod leaves where it is: a mount, and in the pods that the kubelet reports
// and nothing else shows to be alive a cgroup. Both keep the pod.
func (f *Facts) leftover(n FactName) bool {
	return n == Mounted || n == Cgroup && f[Reported].Truth == Yes && f[Running].Truth == No && f[Listed].Truth != Yes
}

// facts returns the facts of the scan, and those that follow from the log, the ledger and earlier scans.
func (c *Case) facts() Facts {
	facts := c.Pod.Facts
	facts[Reported] = c.Log.reported(c.Node, c.Now)
	facts[Directory] = c.directory()
	facts[Restored] = c.restored()
	facts[Eligible] = c.eligible(facts)
	return facts
}

// directory adds to the fact what only a comparison with time shows: the kubelet is still at work in the directory.
func (c *Case) directory() Fact {
	f := c.Pod.Facts[Directory]
	if f.Truth != Yes {
		return f
	}
	if age, left := c.young(); left > 0 {
		return Fact{
			Truth: Unknown, Busy: true, Source: f.Source,
			Detail: fmt.Sprintf("a volume directory or vol_data.json was written %s ago, or the clock was set then, and one operation of the kubelet may take %s",
				age.Round(time.Second), operation),
		}
	}
	return f
}

// young returns the age of the pod's youngest volume, and how long the kubelet may still be at work on it: until it is as old as
// the longest operation, or has had this time for so long, which may be that of a clock that was ahead. A clock that was set
// forward makes no volume older.
func (c *Case) young() (age, left time.Duration) {
	age = c.Now.Wall.Sub(c.Pod.Skeleton.Youngest)
	if set, ok := c.Now.Since(c.ClockSet); ok && !c.Pod.Skeleton.Youngest.IsZero() {
		age = min(age, set)
	}
	h := c.Hold
	since, ok := c.Now.Since(h.Seen)
	if !ok || h.ID != c.Pod.ID || !h.Youngest.Equal(c.Pod.Skeleton.Youngest) {
		return age, operation - age
	}
	return age, operation - max(age, since)
}

// Alive returns what shows that a quarantined pod is alive, of what no pod can fake. unknown is true if one of these facts
// could not be read: then the entry waits. It is asked on the scan right after the move, and until the entry is removed.
func Alive(p Pod) (reasons []Reason, unknown bool) {
	for _, r := range table {
		if !askedOfEntries(r.fact) {
			continue
		}
		f := p.Facts[r.fact]
		if r.fact == Directory {
			f = p.again()
		}
		switch {
		case f.Truth == Yes && f.Alive:
			reasons = append(reasons, Reason{Reason: r.reason, Detail: f.Detail})
		case f.Truth == Unknown:
			unknown = true
		}
	}
	return reasons, unknown
}

// askedOfEntries reports whether the fact is read of quarantined pods, too.
func askedOfEntries(n FactName) bool {
	return n == Listed || n == Running || n == Cgroup || n == Mounted || n == Directory
}

// again reports whether a pod in quarantine has a new directory pods/UID.
func (p *Pod) again() Fact {
	return Fact{Truth: p.Present, Alive: true, Detail: "the kubelet has made the pod's directory again"}
}

// operator reports whether only an operator can end what keeps the pod: the kubelet reports it, or nothing at all runs of
// it, and no time ends the reason.
func (c *Case) operator(r ReasonName, facts Facts) bool {
	reported := facts[Reported].Truth == Yes
	switch r {
	case IsMounted:
		idle := facts[Running].Truth == No && facts[Cgroup].Truth == No && facts[Listed].Truth != Yes
		return facts[Mounted].Truth == Yes && (idle || reported)
	case IsStaged, BadDirectory:
		return reported
	case HasCgroup:
		return reported && c.Log.lasts(c.Now)
	default:
		return false
	}
}
