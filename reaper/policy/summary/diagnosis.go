package summary

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Fate is what becomes of a pod.
type Fate string

// The fates.
const (
	// Person stays until an operator acts.
	Person Fate = "person"
	// Goes with the next sweep, at the latest once time has passed.
	Goes Fate = "goes"
	// Stopped would go, but something stops all enforcing.
	Stopped Fate = "stopped"
	// Quiet stays as an operator asked.
	Quiet Fate = "quiet"
	// Unreported stays until the kubelet reports it: an orphan behind the one that it reports, or a pod that has completed.
	Unreported Fate = "unreported"
	// Gone has no pod directory here: its lines are old, or not the kubelet's.
	Gone Fate = "gone"
	// Lives and is left alone.
	Lives Fate = "lives"
)

// fates are in the order of the screen.
var fates = []Fate{Person, Goes, Stopped, Quiet, Unreported, Gone, Lives}

// Source is one log, and how it was read.
type Source struct {
	Name    string    `json:"name"`
	Read    bool      `json:"read"`
	Problem string    `json:"problem,omitempty"` // what was in the way
	Absent  bool      `json:"absent,omitempty"`  // there is no such file: of the usual names a node has one
	Since   time.Time `json:"since,omitzero"`    // from when on it was read; zero is from its beginning on
}

// Daemon is the one process that removes pods by itself.
type Daemon struct {
	Runs      policy.Truth `json:"runs"`
	Problem   string       `json:"problem,omitempty"` // why that is not known
	PID       int          `json:"pid,omitempty"`     // who holds its lock: with Runs No a sweep, which ends by itself
	Since     time.Time    `json:"since,omitzero"`
	Mode      string       `json:"mode,omitempty"`
	Installed bool         `json:"installed"` // there is a systemd unit of it
}

// Pod is one pod that the log reports, or that is left here.
type Pod struct {
	UID      parsers.PodUID
	Said     Said             // zero if the log does not report it
	Evidence *policy.Evidence // nil where there is no directory
	Verdict  *policy.Verdict
	Fate     Fate
	Bytes    int64
	Parked   bool // it lies in quarantine
}

// Case is all that a diagnosis is made of.
type Case struct {
	Said    []Said
	Sources []Source
	Daemon  Daemon
	// Looked is false if the pods directory could not be read: then nothing is known of pods.
	Looked  bool
	Err     error // why not
	Look    policy.Look
	Root    bool   // this process has root's rights
	Refused string // what security label keeps it from reading all the same, "" for none
	// Staged are the volumes that are staged on the node and that no pod directory names, nil if they are not known.
	Staged []policy.StagedVolume
	Node   policy.Node
	Pods   []policy.Judged
	Parked []parsers.PodUID // what lies in quarantine
	// Conflicts are those of which an entry lies there that only an operator ends.
	Conflicts []parsers.PodUID
	// Failed are the entries there with which the last step failed.
	Failed  []policy.EntryState
	Breaker bool
	// Quarantine is why the quarantine could not be read, or is not the right one.
	Quarantine error
	// Revived is the pod that opened the breaker: it showed life while it was parked.
	Revived parsers.PodUID
	// DataPods and DataBytes are what waits in quarantine for an operator's command.
	DataPods  int
	DataBytes int64
	Unlisted  int // directories in quarantine that the ledger does not have
	Aging     Aging
	Rules     policy.Rules
}

// Aging is the ephemeral data in quarantine that goes when its retention is over.
type Aging struct {
	UIDs  []parsers.PodUID // whose it is, each once; what goes first stands first
	Bytes int64
	In    time.Duration // until the first goes; not positive for one that is due
}

// AgingOf sums the ephemeral data that goes by itself from the entries of the quarantine, as of now.
// pressed is Node.Pressed: it brings forward when that is.
func AgingOf(entries []policy.EntryState, r policy.Rules, now policy.Instant, pressed bool) (a Aging) {
	in := map[parsers.PodUID]time.Duration{}
	for _, e := range entries {
		left, goes := policy.PurgeIn(e, r, now, pressed)
		if !goes {
			continue
		}
		if first, known := in[e.UID]; !known {
			a.UIDs, in[e.UID] = append(a.UIDs, e.UID), left
		} else {
			in[e.UID] = min(first, left)
		}
		for _, l := range e.Left {
			if l.Class == contents.ClassEphemeral {
				a.Bytes += l.Bytes
			}
		}
	}
	slices.SortFunc(a.UIDs, func(x, y parsers.PodUID) int { return cmp.Or(cmp.Compare(in[x], in[y]), cmp.Compare(x, y)) })
	if len(a.UIDs) > 0 {
		a.In = in[a.UIDs[0]]
	}
	return a
}

// Diagnosis is what doctor shows.
type Diagnosis struct {
	Pods   []Pod
	Count  map[Fate]int
	Bytes  map[Fate]int64
	Living int // pod directories of pods that live or that the kubelet does not report, named or not
	// Strays are the names in the pods directory that are no pod's: only an operator removes them.
	Strays []string
	// Stops is what keeps everything that may go, where Stopped is true.
	Stops   policy.Why
	Stopped bool
	// Unattended: something may go, and no daemon is known to run.
	Unattended bool
	// Deaf: no log could be read.
	Deaf bool
	// NeedsPerson: an operator has to act.
	NeedsPerson bool
}

// Diagnose sorts the pods by their fates.
func Diagnose(c Case) Diagnosis {
	d := Diagnosis{Count: map[Fate]int{}, Bytes: map[Fate]int64{}}
	d.Deaf = !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Read })
	d.Stops, d.Stopped = policy.Standing{Node: c.Node, Breaker: c.Breaker, Rules: c.Rules}.Gate().Stops()
	d.pods(c)
	for i := range d.Pods {
		p := &d.Pods[i]
		d.Count[p.Fate]++
		if p.Evidence != nil {
			for _, r := range p.Evidence.Residue {
				p.Bytes += r.Bytes
			}
		}
		d.Bytes[p.Fate] += p.Bytes
	}
	d.Stopped = d.Stopped && c.Looked
	goes := slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.Fate == Goes })
	d.Unattended = goes && c.Daemon.Runs != policy.Yes
	d.NeedsPerson = d.Count[Person]+d.Count[Stopped] > 0 || d.Unattended || d.Deaf && c.Looked && !c.Rules.Waive ||
		c.Looked && c.Node.Agrees.Truth == policy.No || c.Breaker || c.Quarantine != nil || len(c.Conflicts)+len(c.Failed)+len(d.Strays) > 0
	return d
}

// pods lists the pods to show: the reported ones, and those that do not live.
func (d *Diagnosis) pods(c Case) {
	said := map[parsers.PodUID]Said{}
	for _, s := range c.Said {
		said[s.UID] = s
	}
	here := map[parsers.PodUID]bool{}
	for p := range policy.At(c.Pods, policy.InPlace) {
		e, v := &p.Evidence, &p.Verdict
		if e.UID == "" {
			d.Strays = append(d.Strays, e.Name)
			continue // no kubelet reports it
		}
		here[e.UID] = true
		s, named := said[e.UID]
		fate := d.fate(v)
		if fate == Lives || fate == Unreported {
			d.Living++
			if !named {
				continue
			}
		}
		d.Pods = append(d.Pods, Pod{UID: e.UID, Said: s, Evidence: e, Verdict: v, Fate: fate})
	}
	for _, s := range c.Said {
		if c.Looked && !here[s.UID] {
			d.Pods = append(d.Pods, Pod{UID: s.UID, Said: s, Fate: Gone, Parked: slices.Contains(c.Parked, s.UID)})
		}
	}
	slices.SortStableFunc(d.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(slices.Index(fates, a.Fate), slices.Index(fates, b.Fate)),
			b.Said.Last.Compare(a.Said.Last), cmp.Compare(b.Said.Lines, a.Said.Lines), cmp.Compare(a.UID, b.UID))
	})
}

// rank orders what is shown: reported orphans, other orphans, and those that live or are gone.
func (p *Pod) rank() int {
	switch {
	case p.Fate == Gone || p.Fate == Lives || p.Fate == Unreported:
		return 2
	case p.Said.UID == "":
		return 1
	}
	return 0
}

// fate sorts one verdict.
func (d *Diagnosis) fate(v *policy.Verdict) Fate {
	if v.Decision != policy.Keep {
		if d.Stopped {
			return Stopped
		}
		return Goes
	}
	switch policy.OutlookOf(v.Decision, v.Why) {
	case policy.OutlookAlive:
		return Lives
	case policy.OutlookQuiet:
		switch {
		case d.gated(v):
			return Stopped
		case v.For(policy.ReasonNotReported):
			return Unreported
		}
		return Quiet
	case policy.OutlookPerson, policy.OutlookStuck:
	}
	if d.gated(v) {
		return Stopped
	}
	return Person
}

// gated reports whether nothing keeps the pod but what stops all enforcing.
func (d *Diagnosis) gated(v *policy.Verdict) bool {
	return d.Stopped && policy.OnlyFor(v.Why, d.Stops.Reason)
}

// DataOf returns of how many pods, and how much, stays in quarantine until an operator acts. Of a pod that lives again that
// is its emptyDirs, too.
func DataOf(entries []policy.EntryState) (pods int, bytes int64) {
	data := map[parsers.PodUID]bool{}
	for i := range entries {
		e := &entries[i]
		for _, r := range e.Left {
			if e.Phase.InQuarantine() && (r.NeedsPerson() || e.Phase.OnlyByPerson() && r.Class == contents.ClassEphemeral) {
				data[e.UID] = true
				bytes += r.Bytes
			}
		}
	}
	return len(data), bytes
}
