package cni

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/parse"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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

// Undo is the command that undoes a whole sweep, by the name of any of its archives: each record of a
// sweep names the same one.
func Undo(archive string) string {
	return "orphan-reaper quarantine restore --batch " + BatchOf(archive)
}

// ArchiveState is one archive of CNI files, as quarantine list shows it.
type ArchiveState struct {
	Name  string
	At    time.Time
	Files int64
	Bytes int64
	Err   string // why it cannot be read
}

// Expired reports whether the archive is older than the retention: what it holds is caches of
// sandboxes long gone. Nobody can tell the age of one that cannot be read.
func (a ArchiveState) Expired(r policy.Rules, now policy.Instant) bool {
	return a.Err == "" && now.Wall.Sub(a.At) >= r.Retention
}

// Reaped lists the pods whose directories were taken and confirmed dead. What CNI left of
// those needs no other age than a hold.
func Reaped(entries map[string]*policy.EntryState) map[parsers.PodUID]bool {
	reaped := map[parsers.PodUID]bool{}
	for _, e := range entries {
		if e.Phase == policy.PhaseConfirmed || e.Phase == policy.PhasePurging || e.Phase == policy.PhaseGone && e.Taken != nil {
			reaped[e.UID] = true
		}
	}
	return reaped
}

// mostPods bounds how many pods a record names; the archive has them all.
const mostPods = 20

// RemovingRecord is the record that stands in the ledger before the first file of a batch goes.
func RemovingRecord(archive string, files []Content, n policy.Node, now policy.Instant) policy.Record {
	r := policy.Record{Kind: policy.KindCNIRemoving, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID}
	for i := range files {
		count(&r, &files[i].File)
	}
	return r
}

// RemovedRecord tells what became of a batch, in one record.
func RemovedRecord(archive string, outs []Outcome, n policy.Node, now policy.Instant) policy.Record {
	r := policy.Record{Kind: policy.KindCNIRemoved, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID, Undo: Undo(archive)}
	ended(&r, outs)
	return r
}

func ended(r *policy.Record, outs []Outcome) {
	failed := 0
	for i := range outs {
		switch o := &outs[i]; o.Result {
		case policy.Done:
			count(r, &o.File)
		case policy.Refused, policy.Failed:
			if failed++; failed == 1 {
				r.Err = fmt.Sprintf("%s: %s", o.File.Path(), o.Err)
			}
		case policy.Gone, policy.Partly, policy.Conflict:
		}
	}
	if failed > 1 {
		r.Err += fmt.Sprintf(" (and %d more)", failed-1)
	}
}

func count(r *policy.Record, f *File) {
	if r.Taken == nil {
		r.Taken = map[string]policy.Tally{}
	}
	t := r.Taken[string(f.Kind)]
	t.Add(policy.Tally{Entries: 1, Bytes: f.ID.Size})
	r.Taken[string(f.Kind)] = t
	if f.Broken && f.Kind == Cache {
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
func (f *File) Path() string {
	name := f.Name
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '�' }) {
		name = fmt.Sprintf("%q", name)
	}
	return f.Dir + "/" + name
}

// The states in which a CNI file is counted.
const (
	Live       = "live"       // of a sandbox that the runtime lists
	Dead       = "dead"       // may go
	Waiting    = "waiting"    // will go when time has passed
	Kept       = "kept"       // kept for another reason
	Unreadable = "unreadable" // broken, or tied to no container
	OfOthers   = "foreign"
)

// Census counts what a sweep found, for metrics and totals.
type Census struct {
	Files   map[Kind]map[string]policy.Tally // by state
	Reasons map[policy.Reason]int64          // of what is kept or waits
	Taken   map[Kind]policy.Tally
	// Failed counts what was to go and did not, and Refused those of them that were only
	// left for another time; Vanished what was gone before it was taken.
	Failed, Refused, Vanished int64
	// Verdicts counts what was judged, and Left how much of that is still there.
	Verdicts map[policy.Decision]int64
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
func (c *Census) Networks() []NetworkCount {
	other := NetworkCount{Name: OtherNetworks}
	add := func(n NetworkCount) { other.Reserved, other.InUse = other.Reserved+n.Reserved, other.InUse+n.InUse }
	var all []NetworkCount
	for name, reserved := range c.Reserved {
		n := NetworkCount{name, reserved, c.InUse[name]}
		if parse.IsName(name) && len(name) <= longNetwork {
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

// NewCensus returns a census of nothing.
func NewCensus() Census {
	return Census{
		Files: map[Kind]map[string]policy.Tally{}, Reasons: map[policy.Reason]int64{}, Taken: map[Kind]policy.Tally{}, Verdicts: map[policy.Decision]int64{},
		Reserved: map[string]int64{}, InUse: map[string]int64{},
	}
}

// Add counts what a look says of the living.
func (c *Census) Add(look Look) {
	for kind, t := range look.Live {
		c.add(kind, Live, t)
	}
	for network, n := range look.InUse {
		c.InUse[network] += n
		c.Reserved[network] += n
	}
}

// Judged counts one file that may be residue.
func (c *Census) Judged(f File, v policy.Verdict) {
	state := Kept
	switch {
	case v.Decision == policy.Reap:
		state = Dead
	case v.For(policy.ReasonForeign):
		state = OfOthers
	case f.Broken || v.For(policy.ReasonUntied):
		state = Unreadable
	case v.Decision == policy.Wait:
		state = Waiting
	}
	c.Verdicts[v.Decision]++
	c.Left++
	if OutlookOf(v.Decision, v.Why) == policy.OutlookPerson {
		c.ForPerson++
	}
	c.add(f.Kind, state, policy.Tally{Entries: 1, Bytes: f.ID.Size})
	if f.Kind == Address {
		c.Reserved[f.Network]++
	}
	if v.Decision != policy.Reap {
		for _, w := range v.Why {
			c.Reasons[w.Reason]++
		}
	}
}

// Ended counts what became of one file.
func (c *Census) Ended(o Outcome) {
	switch o.Result {
	case policy.Done:
		t := c.Taken[o.File.Kind]
		t.Add(policy.Tally{Entries: 1, Bytes: o.File.ID.Size})
		c.Taken[o.File.Kind] = t
		c.away(o.File)
		if o.File.Kind == Address && c.Reserved[o.File.Network] > 0 {
			c.Reserved[o.File.Network]--
		}
	case policy.Gone:
		c.Vanished++
		c.away(o.File)
	case policy.Refused:
		c.Refused++
		c.Failed++
	case policy.Failed:
		c.Failed++
	case policy.Partly, policy.Conflict:
	}
}

// away counts a file that is there no more; what an earlier run had begun to take was never
// judged.
func (c *Census) away(f File) {
	if c.Files[f.Kind][Dead].Entries > 0 {
		c.add(f.Kind, Dead, policy.Tally{Entries: -1, Bytes: -f.ID.Size})
		c.Left--
	}
}

// Merge returns the census of two sweeps, of which later saw what earlier had left: what was
// taken adds up, and what is there, or failed, is what the later one found.
func (c Census) Merge(later Census) Census {
	for kind, t := range c.Taken {
		sum := later.Taken[kind]
		sum.Add(t)
		later.Taken[kind] = sum
	}
	later.Vanished += c.Vanished
	return later
}

// Removed is how many files were taken.
func (c *Census) Removed() (n int64) {
	for _, t := range c.Taken {
		n += t.Entries
	}
	return n
}

func (c *Census) add(kind Kind, state string, t policy.Tally) {
	if c.Files[kind] == nil {
		c.Files[kind] = map[string]policy.Tally{}
	}
	sum := c.Files[kind][state]
	sum.Add(t)
	c.Files[kind][state] = sum
}
