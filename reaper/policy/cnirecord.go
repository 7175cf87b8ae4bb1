package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers/cni"
)

// ArchivePrefix begins the name of every archive of CNI files.
const ArchivePrefix = "cni-"

// The archives of one sweep are a batch. The first of them is named by its time,
// cni-DATE-TIME-MILLISECONDS, and so is the batch; the others are numbered after it.
const batchParts = 4

// BatchArchive names the n-th archive of a batch, the first being number 1.
func BatchArchive(batch string, n int) string {
	if n <= 1 {
		return batch
	}
	return fmt.Sprintf("%s-%03d", batch, n)
}

// BatchOf returns the batch of an archive.
func BatchOf(archive string) string {
	parts := strings.Split(archive, "-")
	return strings.Join(parts[:min(len(parts), batchParts)], "-")
}

// restoreCommand is what undoes a sweep: of its first archive the record is written before
// anybody knows of another.
func restoreCommand(archive string) string {
	if batch := BatchOf(archive); batch != archive {
		return "orphan-reaper quarantine restore --batch " + batch
	}
	return "orphan-reaper quarantine restore " + archive
}

// ArchiveState is one archive of CNI files, as quarantine list shows it.
type ArchiveState struct {
	Name  string
	At    time.Time
	Files int64
	Bytes int64
	Err   string // why it cannot be read
}

// mostPods bounds how many pods a record names; the archive has them all.
const mostPods = 20

// Sweeping is the record that stands in the ledger before the first file of a batch goes.
func Sweeping(archive string, files []CNIContent, n Node, now Instant) Record {
	r := Record{Kind: KindSweeping, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID}
	for i := range files {
		r.count(&files[i].File)
	}
	return r
}

// Swept tells what became of a batch, in one record.
func Swept(archive string, outs []CNIOutcome, n Node, now Instant) Record {
	r := Record{Kind: KindSwept, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID, Undo: restoreCommand(archive)}
	r.ended(outs)
	return r
}

// Unswept tells what was put back by a person's word.
func Unswept(which string, outs []CNIOutcome, now Instant) Record {
	r := Record{Kind: KindUnswept, At: now, Archive: which}
	r.ended(outs)
	return r
}

func (r *Record) ended(outs []CNIOutcome) {
	failed := 0
	for i := range outs {
		switch o := &outs[i]; o.Result {
		case Done:
			r.count(&o.File)
		case Refused, Failed:
			if failed++; failed == 1 {
				r.Err = fmt.Sprintf("%s: %s", o.File.Path(), o.Err)
			}
		case Gone, Partly, Conflict:
		}
	}
	if failed > 1 {
		r.Err += fmt.Sprintf(" (and %d more)", failed-1)
	}
}

func (r *Record) count(f *CNIFile) {
	if r.Taken == nil {
		r.Taken = map[string]Tally{}
	}
	t := r.Taken[string(f.Kind)]
	t.Add(Tally{Entries: 1, Bytes: f.ID.Size})
	r.Taken[string(f.Kind)] = t
	if f.Broken && f.Kind == CNICache {
		r.Repaired++
		if f.Runtime != "" && !slices.Contains(r.Runtimes, f.Runtime) {
			r.Runtimes = append(r.Runtimes, f.Runtime)
		}
	}
	if f.PodName == "" {
		return
	}
	if pod := f.Namespace + "/" + f.PodName; len(r.Pods) < mostPods && !slices.Contains(r.Pods, pod) {
		r.Pods = append(r.Pods, pod)
	}
}

// Path is the file's path for people: the name may hold any byte.
func (f *CNIFile) Path() string {
	name := f.Name
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '�' }) {
		name = fmt.Sprintf("%q", name)
	}
	return f.Dir + "/" + name
}

// The states in which a CNI file is counted.
const (
	CNILive       = "live"       // of a sandbox that the runtime lists
	CNIDead       = "dead"       // may go
	CNIWaiting    = "waiting"    // will go when time has passed
	CNIKept       = "kept"       // kept for another reason
	CNIUnreadable = "unreadable" // broken, or tied to no container
	CNIOfOthers   = "foreign"
)

// CNICensus counts what a sweep found, for metrics and totals.
type CNICensus struct {
	Files   map[CNIKind]map[string]Tally // by state
	Reasons map[Reason]int64             // of what is kept or waits
	Taken   map[CNIKind]Tally
	// Failed counts what was to go and did not, and Refused those of them that were only
	// left for another time; Vanished what was gone before it was taken.
	Failed, Refused, Vanished int64
	// Verdicts counts what was judged, and Left how much of that is still there.
	Verdicts map[Decision]int64
	Left     int64
	// ForPerson counts what is kept for a reason about which a person should do something.
	ForPerson int64
	// Reserved and InUse count addresses by network.
	Reserved, InUse map[string]int64
}

// NetworkCount is how many addresses of a network are reserved and in use.
type NetworkCount struct {
	Name            string
	Reserved, InUse int64
}

const (
	// MostNetworks bounds the networks that are counted one by one: who may write a network
	// attachment can name one after the other, and each would be two series on each node.
	MostNetworks = 64
	// OtherNetworks is the name of the others together; a network cannot have it.
	OtherNetworks = "(other)"
	// longNetwork is how long a name is that is shown; those of Kubernetes' objects have 253.
	longNetwork = 63
)

// Networks counts the addresses by network: the MostNetworks with the most that nobody uses
// one by one, sorted by name, and the others together. A directory whose name no network may
// have, or that is long, is one of the others.
func (c *CNICensus) Networks() []NetworkCount {
	other := NetworkCount{Name: OtherNetworks}
	add := func(n NetworkCount) { other.Reserved, other.InUse = other.Reserved+n.Reserved, other.InUse+n.InUse }
	var all []NetworkCount
	for name, reserved := range c.Reserved {
		n := NetworkCount{name, reserved, c.InUse[name]}
		if cni.IsName(name) && len(name) <= longNetwork {
			all = append(all, n)
		} else {
			add(n)
		}
	}
	slices.SortFunc(all, func(a, b NetworkCount) int {
		return cmp.Or(cmp.Compare(b.Reserved-b.InUse, a.Reserved-a.InUse), strings.Compare(a.Name, b.Name))
	})
	if len(all) > MostNetworks {
		for _, n := range all[MostNetworks:] {
			add(n)
		}
		all = all[:MostNetworks]
	}
	slices.SortFunc(all, func(a, b NetworkCount) int { return strings.Compare(a.Name, b.Name) })
	if other.Reserved+other.InUse > 0 {
		all = append(all, other)
	}
	return all
}

// NewCNICensus returns a census of nothing.
func NewCNICensus() CNICensus {
	return CNICensus{
		Files: map[CNIKind]map[string]Tally{}, Reasons: map[Reason]int64{}, Taken: map[CNIKind]Tally{}, Verdicts: map[Decision]int64{},
		Reserved: map[string]int64{}, InUse: map[string]int64{},
	}
}

// Add counts what a look says of the living.
func (c *CNICensus) Add(look CNILook) {
	for kind, t := range look.Live {
		c.add(kind, CNILive, t)
	}
	for network, n := range look.InUse {
		c.InUse[network] += n
		c.Reserved[network] += n
	}
}

// Judged counts one file that may be residue.
func (c *CNICensus) Judged(f CNIFile, v Verdict) {
	state := CNIKept
	switch {
	case v.Decision == Reap:
		state = CNIDead
	case v.For(ReasonForeign):
		state = CNIOfOthers
	case f.Broken || v.For(ReasonUntied):
		state = CNIUnreadable
	case v.Decision == Wait:
		state = CNIWaiting
	}
	c.Verdicts[v.Decision]++
	c.Left++
	if OutlookOfCNI(v.Decision, v.Why) == OutlookLook {
		c.ForPerson++
	}
	c.add(f.Kind, state, Tally{Entries: 1, Bytes: f.ID.Size})
	if f.Kind == CNIAddress {
		c.Reserved[f.Network]++
	}
	if v.Decision != Reap {
		for _, w := range v.Why {
			c.Reasons[w.Reason]++
		}
	}
}

// Ended counts what became of one file.
func (c *CNICensus) Ended(o CNIOutcome) {
	switch o.Result {
	case Done:
		t := c.Taken[o.File.Kind]
		t.Add(Tally{Entries: 1, Bytes: o.File.ID.Size})
		c.Taken[o.File.Kind] = t
		c.away(o.File)
		if o.File.Kind == CNIAddress && c.Reserved[o.File.Network] > 0 {
			c.Reserved[o.File.Network]--
		}
	case Gone:
		c.Vanished++
		c.away(o.File)
	case Refused:
		c.Refused++
		c.Failed++
	case Failed:
		c.Failed++
	case Partly, Conflict:
	}
}

// away counts a file that is there no more; what an earlier run had begun to take was never
// judged.
func (c *CNICensus) away(f CNIFile) {
	if c.Files[f.Kind][CNIDead].Entries > 0 {
		c.add(f.Kind, CNIDead, Tally{Entries: -1, Bytes: -f.ID.Size})
		c.Left--
	}
}

// Merge returns the census of two sweeps, of which later saw what earlier had left: what was
// taken adds up, and what is there, or failed, is what the later one found.
func (c CNICensus) Merge(later CNICensus) CNICensus {
	for kind, t := range c.Taken {
		sum := later.Taken[kind]
		sum.Add(t)
		later.Taken[kind] = sum
	}
	later.Vanished += c.Vanished
	return later
}

// Removed is how many files were taken.
func (c *CNICensus) Removed() (n int64) {
	for _, t := range c.Taken {
		n += t.Entries
	}
	return n
}

func (c *CNICensus) add(kind CNIKind, state string, t Tally) {
	if c.Files[kind] == nil {
		c.Files[kind] = map[string]Tally{}
	}
	sum := c.Files[kind][state]
	sum.Add(t)
	c.Files[kind][state] = sum
}
