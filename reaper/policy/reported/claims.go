package reported

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Claim is one sighting, with when it was read. It counts if the running kubelet wrote it.
type Claim struct {
	Sighting parsers.Sighting
	At       policy.Instant // when we read it
	// Lines is how many lines the claim stands for, of which Sighting is the last; 0 where they are not counted.
	Lines int
	// Dropped marks that a tear-down error found no space at that time, by trusted fields or not. The claim is about no pod.
	Dropped bool
}

// DroppedAt is the claim that tear-down errors of the journal, written at that time or before, were dropped.
func DroppedAt(at policy.Instant) Claim {
	return Claim{Dropped: true, At: at, Sighting: parsers.Sighting{Report: parsers.ReportTeardown, Trusted: true, Whole: true}}
}

// Size is about how many bytes a claim takes in memory.
func (c Claim) Size() int {
	const fixed = 512 // the two structs, and what a map adds
	s := c.Sighting
	return fixed + len(s.UID) + len(s.Path) + len(s.Volume) + len(s.Leaf) + len(s.Program) + len(s.BootID)
}

// startSlack is how far the start of a process, which /proc/PID/stat gives in ticks of
// 10 ms against the boot clock, may lie after the first line that the process wrote.
const startSlack = 2 * time.Second

// Evident reports whether the kubelet k of this boot wrote the line: it has its PID and its format, and is not older than
// the kubelet. Only a whole line counts: a pod chooses what its probe prints, and so how the second half of a cut line
// begins.
func (c Claim) Evident(k policy.KubeletID, format policy.LogFormat, now policy.Instant) bool {
	s := c.Sighting
	if c.Dropped || !s.Whole || !inFormat(s, format) || c.untimely() {
		return false
	}
	if k.PID == 0 || s.PID != k.PID || c.At.BootID != now.BootID {
		return false
	}
	if s.BootID != "" && s.BootID != strings.ReplaceAll(now.BootID, "-", "") {
		return false
	}
	start := now.Wall.Add(k.Start - now.Boot - startSlack)
	if !s.Time.IsZero() {
		return !s.Time.Before(start)
	}
	return c.At.Boot >= k.Start
}

// untimely reports whether the line's time keeps it from being evidence of any kubelet. A line from the future may be of
// another boot, in which another kubelet had this PID: a machine without a battery clock boots into its past. A line without
// a certain time counts only where it was read as it was written.
func (c Claim) untimely() bool {
	if s := c.Sighting; !s.Time.IsZero() {
		return s.Time.After(c.At.Wall.Add(startSlack))
	}
	return c.Sighting.CatchUp
}

// inFormat reports whether the kubelet writes such lines. JSON has no PID: only journald's fields show whose it is, and only
// a kubelet that is known to write JSON begins a line with it.
func inFormat(s parsers.Sighting, format policy.LogFormat) bool {
	if s.JSON {
		return s.Trusted && format == policy.LogJSON
	}
	return format != policy.LogJSON
}

// Written returns when the line was written, as far as it shows: it may have been read later.
func (c Claim) Written() policy.Instant {
	at := c.At
	if late := at.Wall.Sub(c.Sighting.Time); !c.Sighting.Time.IsZero() && late > 0 {
		at.Wall, at.Boot = c.Sighting.Time, max(0, at.Boot-late)
	}
	return at
}

// OfNode returns the claims about pods that this node has. Any process that writes a line can make up a UID, and a line
// about a pod that was never here does not show that the kubelet's sources are ready.
func OfNode(claims []Claim, has map[parsers.PodUID]bool) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return !c.Dropped && !has[c.Sighting.UID] })
}

// MostClaims and mostClaimBytes bound what a flood of lines can occupy between two looks: once for whole lines by
// journald's trusted fields, and once for all others, which any process can forge.
const (
	MostClaims     = 16384
	mostClaimBytes = 8 << 20
)

// Claims gathers claims until the next look. Of each key it keeps the claim that was written last.
type Claims struct {
	of      map[claimKey]Claim
	rooms   [2]room  // of all other claims, and of whole lines by trusted fields
	dropped [2]Claim // the last tear-down error of each room that found no space, or the zero value
}

// claimKey has the pod, the kind of report, the kubelet and the volume, and what makes a line evidence: a forged line cannot
// replace the kubelet's own.
type claimKey struct {
	uid                            parsers.PodUID
	volume                         string
	pid                            int
	teardown, trusted, whole, json bool
	untimely, volumes              bool
}

func keyOf(c Claim) claimKey {
	s := c.Sighting
	return claimKey{s.UID, s.Volume, s.PID, s.Report == parsers.ReportTeardown, s.Trusted, s.Whole, s.JSON, c.untimely(), s.Kind == parsers.KindVolumes}
}

// compare is a total order of claims with different keys: by time, then by key.
func (c Claim) compare(d Claim) int {
	a, b := keyOf(c), keyOf(d)
	return cmp.Or(
		cmp.Compare(c.At.Boot, d.At.Boot), strings.Compare(string(a.uid), string(b.uid)), strings.Compare(a.volume, b.volume),
		cmp.Compare(a.pid, b.pid), order(a.teardown, b.teardown), order(a.trusted, b.trusted), order(a.whole, b.whole), order(a.json, b.json),
		order(a.untimely, b.untimely), order(a.volumes, b.volumes),
	)
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// room is how much of the bounds is used.
type room struct{ claims, bytes int }

// Add gathers one claim. It may be older than one that was gathered before.
func (g *Claims) Add(c Claim) {
	key := keyOf(c)
	which := 0
	if key.trusted && key.whole {
		which = 1
	}
	if c.Dropped {
		g.drop(which, c)
		return
	}
	last, known := g.of[key]
	lines := c.Lines + last.Lines
	if known && c.Written().Boot < last.Written().Boot {
		c = last
	}
	c.Lines = lines
	used := g.rooms[which]
	used.bytes += c.Size()
	if known {
		used.bytes -= last.Size()
	} else {
		used.claims++
	}
	if used.bytes > mostClaimBytes || used.claims > MostClaims {
		g.drop(which, c)
		return
	}
	if g.of == nil {
		g.of = map[claimKey]Claim{}
	}
	g.rooms[which], g.of[key] = used, c
}

// drop records that a tear-down error was dropped: its pod may be held. A line that is not whole is no evidence, and an
// orphan that is not reported waits.
func (g *Claims) drop(room int, c Claim) {
	s := c.Sighting
	if !s.Whole || s.Report != parsers.ReportTeardown || g.dropped[room].Dropped && c.At.Boot < g.dropped[room].At.Boot {
		return
	}
	g.dropped[room] = Claim{Dropped: true, At: c.At, Sighting: parsers.Sighting{Report: s.Report, Trusted: s.Trusted, Whole: true}}
}

// All returns what was gathered, in no order.
func (g *Claims) All() iter.Seq[Claim] { return maps.Values(g.of) }

// Take returns what was gathered, sorted, and empties g.
func (g *Claims) Take() []Claim {
	claims := slices.AppendSeq(make([]Claim, 0, len(g.of)), g.All())
	for _, c := range g.dropped {
		if c.Dropped {
			claims = append(claims, c)
		}
	}
	*g = Claims{}
	slices.SortFunc(claims, Claim.compare)
	return claims
}
