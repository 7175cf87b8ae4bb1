package heard

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// MostClaims and mostClaimBytes bound what a flood of lines can occupy between two looks: once for whole lines by journald's trusted fields,
// and once for all others, which any process can forge.
const (
	MostClaims     = 16384
	mostClaimBytes = 8 << 20
)

// Claims gathers claims until the next look. It keeps the last claim of each key.
type Claims struct {
	of      map[claimKey]Claim
	rooms   [2]room  // of all other claims, and of whole lines by trusted fields
	dropped [2]Claim // the last tear-down error of each room that found no space, or the zero value
}

// claimKey has the pod, the kind of report, the kubelet and the volume, and what makes a line evidence: a forged line cannot replace the
// kubelet's own.
type claimKey struct {
	uid                            parsers.PodUID
	volume                         string
	pid                            int
	teardown, trusted, whole, json bool
}

func keyOf(c Claim) claimKey {
	s := c.Sighting
	return claimKey{s.UID, s.Volume, s.PID, s.Report == parsers.ReportTeardown, s.Trusted, s.Whole, s.JSON}
}

// compare is a total order of claims with different keys. Claims that were made at the same time have the order of their keys.
func (c Claim) compare(d Claim) int {
	a, b := keyOf(c), keyOf(d)
	return cmp.Or(
		cmp.Compare(c.At.Boot, d.At.Boot), strings.Compare(string(a.uid), string(b.uid)), strings.Compare(a.volume, b.volume),
		cmp.Compare(a.pid, b.pid), order(a.teardown, b.teardown), order(a.trusted, b.trusted), order(a.whole, b.whole), order(a.json, b.json),
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
	if known && c.At.Boot < last.At.Boot {
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

// drop records that a tear-down error was dropped: the pod that it is about may be held. A line that is not whole is no evidence in any case,
// and an orphan that is not reported waits.
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
