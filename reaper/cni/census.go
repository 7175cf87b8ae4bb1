package cni

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The states in which a CNI file is counted.
const (
	Live       = "live"       // its sandbox is listed by the runtime
	Dead       = "dead"       // may be removed
	Waiting    = "waiting"    // may be removed later
	Kept       = "kept"       // kept for another reason
	Unreadable = "unreadable" // broken, or tied to no container
	OfOthers   = "foreign"
)

// Census counts the results of a sweep, for metrics and totals.
type Census struct {
	Files   map[Kind]map[string]policy.Tally // by state
	Reasons map[policy.Reason]int64          // of files that are kept or wait
	Taken   map[Kind]policy.Tally            // removed files
	// Failed counts files that could not be removed, and Refused those of them that were not tried. Vanished counts
	// files that something else removed first.
	Failed, Refused, Vanished int64
	// Verdicts counts judged files, and Left those of them that still exist.
	Verdicts map[policy.Decision]int64
	Left     int64
	// ForPerson counts the files that are kept for a reason that needs an operator.
	ForPerson int64
	// Reserved and InUse count addresses by network.
	Reserved, InUse map[string]int64
}

// NewCensus returns an empty census.
func NewCensus() Census {
	return Census{
		Files: map[Kind]map[string]policy.Tally{}, Reasons: map[policy.Reason]int64{}, Taken: map[Kind]policy.Tally{}, Verdicts: map[policy.Decision]int64{},
		Reserved: map[string]int64{}, InUse: map[string]int64{},
	}
}

// Add counts the files of living sandboxes of a look.
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
func (c *Census) Judged(f *File, v policy.Verdict) {
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

// Ended counts the result of one file.
func (c *Census) Ended(f *File) {
	switch f.Result {
	case policy.Done:
		t := c.Taken[f.Kind]
		t.Add(policy.Tally{Entries: 1, Bytes: f.ID.Size})
		c.Taken[f.Kind] = t
		c.gone(f)
		if f.Kind == Address && c.Reserved[f.Network] > 0 {
			c.Reserved[f.Network]--
		}
	case policy.Gone:
		c.Vanished++
		c.gone(f)
	case policy.Refused:
		c.Refused++
		c.Failed++
	case policy.Failed:
		c.Failed++
	case policy.Partly, policy.Conflict:
	}
}

// gone counts a file that no longer exists. A file that an earlier run had begun to remove was not judged.
func (c *Census) gone(f *File) {
	if c.Files[f.Kind][Dead].Entries > 0 {
		c.add(f.Kind, Dead, policy.Tally{Entries: -1, Bytes: -f.ID.Size})
		c.Left--
	}
}

// Merge returns the census of two successive sweeps: the sum of their removed files, and the later sweep's other
// counts.
func (c Census) Merge(later Census) Census {
	for kind, t := range c.Taken {
		sum := later.Taken[kind]
		sum.Add(t)
		later.Taken[kind] = sum
	}
	later.Vanished += c.Vanished
	return later
}

// Removed returns how many files were removed.
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

// NetworkCount counts the addresses of a network that are reserved and in use.
type NetworkCount struct {
	Name            string
	Reserved, InUse int64
}

const (
	// MostNetworks limits the networks that are counted one by one: users who may create network attachments can name
	// any number of networks, and each would be two metric series on each node.
	MostNetworks = 64
	// OtherNetworks is the name under which the others are counted; no network can have it.
	OtherNetworks = "(other)"
	// longNetwork is the longest name of a network that is counted by itself.
	longNetwork = 63
)

// Networks counts the addresses by network, sorted by name: the MostNetworks networks with the most unused
// reservations one by one, the others together. Networks with an invalid or long name are among the others.
func (c *Census) Networks() []NetworkCount {
	other := NetworkCount{Name: OtherNetworks}
	var all, rest []NetworkCount
	for name, reserved := range c.Reserved {
		if n := (NetworkCount{name, reserved, c.InUse[name]}); IsName(name) && len(name) <= longNetwork {
			all = append(all, n)
		} else {
			rest = append(rest, n)
		}
	}
	slices.SortFunc(all, func(a, b NetworkCount) int {
		return cmp.Or(cmp.Compare(b.Reserved-b.InUse, a.Reserved-a.InUse), strings.Compare(a.Name, b.Name))
	})
	if len(all) > MostNetworks {
		all, rest = all[:MostNetworks], append(rest, all[MostNetworks:]...)
	}
	for _, n := range rest {
		other.Reserved, other.InUse = other.Reserved+n.Reserved, other.InUse+n.InUse
	}
	slices.SortFunc(all, func(a, b NetworkCount) int { return strings.Compare(a.Name, b.Name) })
	if other.Reserved+other.InUse > 0 {
		all = append(all, other)
	}
	return all
}
