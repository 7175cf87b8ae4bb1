package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Heard is what one run of a kubelet has said in its log about orphans, as far as its
// lines count as evidence. It is kept across our own restarts and begins anew with each
// kubelet.
type Heard struct {
	Kubelet KubeletID               `json:"kubelet"`
	BootID  string                  `json:"boot_id"`
	Named   map[parsers.PodUID]bool `json:"named,omitempty"`
	Held    map[parsers.PodUID]Held `json:"held,omitempty"`
	// Full is set once more pods were held than are remembered: of any other it is not known.
	Full bool `json:"full,omitempty"`
}

// mostHeard bounds what is remembered of each kind: a file's lines can be forged. A kubelet
// has a few thousand pod directories at the most, and repeats what it says.
const mostHeard = 16384

// Held is the kubelet's last word on a volume that its volume manager cannot tear down.
type Held struct {
	At   Instant `json:"at"`
	Path string  `json:"path,omitempty"` // the volume path it named
	// Volumes holds the last word on each volume, by the kubelet's name for it.
	Volumes map[string]HeldVolume `json:"volumes,omitempty"`
}

// Claim is one sighting that counts once the kubelet that made it is known to run.
type Claim struct {
	Sighting parsers.Sighting
	At       Instant // when we read it
}

// startSlack is how far the start of a process, which /proc/PID/stat gives in ticks of
// 10 ms against the boot clock, may lie after the first line that the process wrote.
const startSlack = 2 * time.Second

// Evident says whether the claim is the word of the kubelet k of this boot: by
// journald's trusted fields, or by its PID in a line that cannot be older than it.
func (c Claim) Evident(k KubeletID, now Instant) bool {
	s := c.Sighting
	if k.PID == 0 || s.PID != k.PID || c.At.BootID != now.BootID {
		return false
	}
	if s.BootID != "" && s.BootID != strings.ReplaceAll(now.BootID, "-", "") {
		return false
	}
	start := now.Wall.Add(k.Start - now.Boot - startSlack)
	if !s.Time.IsZero() {
		// A time to come is one of a clock that has been set back since: a line of another
		// boot, in which another kubelet may have had this PID. A machine without a battery
		// clock boots into its own past.
		return !s.Time.Before(start) && !s.Time.After(c.At.Wall.Add(startSlack))
	}
	// A line without a certain time counts only where it was read as it was written.
	return !s.CatchUp && c.At.Boot >= k.Start
}

// Learn takes the claims that are evident for the kubelet that runs now, and forgets what
// another kubelet said.
func (h *Heard) Learn(claims []Claim, n Node, now Instant) {
	if n.Kubelet.Truth != Yes {
		return
	}
	if h.Kubelet != n.KubeletID || h.BootID != now.BootID {
		*h = Heard{Kubelet: n.KubeletID, BootID: now.BootID}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.At.Boot, b.At.Boot) })
	for _, c := range claims {
		if !c.Evident(n.KubeletID, now) {
			continue
		}
		uid := c.Sighting.UID
		if c.Sighting.Report == parsers.ReportTeardown {
			if h.Held == nil {
				h.Held = map[parsers.PodUID]Held{}
			}
			held, ok := h.Held[uid]
			if !ok && len(h.Held) >= mostHeard {
				h.Full = true
				continue
			}
			held.learn(c.Sighting, c.At)
			h.Held[uid] = held
			continue
		}
		// The kubelet names a pod only when its volume manager has no volume of it any more
		// (podVolumesExist). After a restart it tries once to clean up what it cannot
		// reconstruct, fails with a TearDown error, and names the pod from then on.
		if held, ok := h.Held[uid]; ok && c.At.Boot > held.At.Boot {
			delete(h.Held, uid)
		}
		if h.Named == nil {
			h.Named = map[parsers.PodUID]bool{}
		}
		if !h.Named[uid] && len(h.Named) >= mostHeard {
			for other := range h.Named {
				delete(h.Named, other) // it is named again, or waits: nothing goes for it
				break
			}
		}
		h.Named[uid] = true
	}
}

// Tell sets the facts that only the kubelet's log can give: named, swept and held, and the
// leaves. With no kubelet running all of them stay unknown.
func (h *Heard) Tell(e *Evidence, n Node, now Instant) {
	if n.Kubelet.Truth != Yes || h.Kubelet != n.KubeletID {
		return
	}
	origin := fmt.Sprintf("log of the kubelet, PID %d", h.Kubelet.PID)
	named, swept, held := No, No, No
	if h.Named[e.UID] {
		named = Yes
	}
	if len(h.Named) > 0 {
		swept = Yes
	}
	var detail string
	if h.Full {
		held, detail = Unknown, fmt.Sprintf("the log names more than %d pods that the volume manager holds", mostHeard)
	}
	if by, ok := h.Held[e.UID]; ok {
		held, detail = Yes, "the kubelet's volume manager cannot tear down "+cmp.Or(by.Path, "one of its volumes")
		if e.Leaves = by.leaves(now); e.Leaves != nil {
			detail += ": it is not empty"
		}
	}
	e.Facts.Set(FactNamed, named, origin, "")
	e.Facts.Set(FactSwept, swept, origin, fmt.Sprintf("%d orphans named since its start", len(h.Named)))
	e.Facts.Set(FactHeld, held, origin, detail)
}
