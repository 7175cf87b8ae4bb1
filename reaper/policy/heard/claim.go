package heard

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Claim is one sighting that counts once the kubelet that made it is known to run.
type Claim struct {
	Sighting parsers.Sighting
	At       policy.Instant // when we read it
	// Lines is how many lines the claim stands for, of which Sighting is the last; 0 where nobody counts.
	Lines int
	// Dropped marks that a tear-down error found no space at that time, by trusted fields or not. The claim is about no pod.
	Dropped bool
}

// DroppedAt is the claim that tear-down errors of the journal were dropped that were written at that time or before.
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

// Evident says whether the claim is the word of the kubelet k of this boot. journald's trusted
// fields show that, or its PID in a line that is not older than the kubelet and has the format that
// it writes. Only a whole line counts: a pod chooses what its probe prints, and so how the second
// half begins of a line that journald cut in two.
func (c Claim) Evident(k policy.KubeletID, format policy.LogFormat, now policy.Instant) bool {
	s := c.Sighting
	if !s.Whole || !inFormat(s, format) {
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
		// A time in the future comes from a clock that was set back since. Such a line may be of
		// another boot, in which another kubelet had this PID: a machine without a battery clock
		// boots into its own past.
		return !s.Time.Before(start) && !s.Time.After(c.At.Wall.Add(startSlack))
	}
	// A line without a certain time counts only where it was read as it was written.
	return !s.CatchUp && c.At.Boot >= k.Start
}

// inFormat says whether the kubelet writes such lines. JSON holds no PID of its own: only
// journald's fields say then whose it is, and only a kubelet that is known to write JSON
// writes it at a line's beginning.
func inFormat(s parsers.Sighting, format policy.LogFormat) bool {
	if s.JSON {
		return s.Trusted && format == policy.LogJSON
	}
	return format != policy.LogJSON
}

// Written is when the line was written, as far as it tells: we may have read it later.
func (c Claim) Written() policy.Instant {
	at := c.At
	if late := at.Wall.Sub(c.Sighting.Time); !c.Sighting.Time.IsZero() && late > 0 {
		at.Wall, at.Boot = c.Sighting.Time, max(0, at.Boot-late)
	}
	return at
}

// Known returns those of the claims that name a pod which this node has. Whoever can make a
// line can make up a UID, and a line about a pod that was never here says neither that the
// kubelet's sources are ready nor anything else. A pod that the kubelet itself removed between
// its line and the look is no longer here either: its line is not missed.
func Known(claims []Claim, has map[parsers.PodUID]bool) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return !c.Dropped && !has[c.Sighting.UID] })
}
