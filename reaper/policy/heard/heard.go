package heard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Heard is what one run of a kubelet has said in its log about orphans, as far as its
// lines count as evidence. It is kept across our own restarts and begins anew with each
// kubelet.
type Heard struct {
	Kubelet policy.KubeletID        `json:"kubelet"`
	BootID  string                  `json:"boot_id"`
	Named   map[parsers.PodUID]bool `json:"named,omitempty"`
	// NamedAt is when it named each of them last.
	NamedAt   map[parsers.PodUID]policy.Instant `json:"named_at,omitempty"`
	Teardowns map[parsers.PodUID]Teardown       `json:"held,omitempty"`
	// Last is when it said anything of either kind. Since is when an unbroken row of such lines
	// began: for all that time its log was there and was read.
	Last  policy.Instant `json:"last,omitzero"`
	Since policy.Instant `json:"since,omitzero"`
	// Full is set once a tear-down error was dropped, Dropped is when the last one was: of the pods without one it is not known whether they
	// are held, until the kubelet has repeated what still holds.
	Full    bool           `json:"full,omitempty"`
	Dropped policy.Instant `json:"dropped,omitzero"`
	// Trusted is set once journald's fields showed a line to be the kubelet's: then its lines come that way, and what floods the other way
	// is not the kubelet's.
	Trusted bool `json:"trusted,omitempty"`

	bytes int // of Teardowns, as teardownSize counts
}

// mostHeard bounds what is remembered of each kind: a file's lines can be forged. A kubelet
// has a few thousand pod directories at the most, and repeats what it says.
const mostHeard = 16384

// mostTeardownBytes bounds the names and paths among them, in memory and in the saved file. Beyond it a
// pod is known to be held, and no more: it is kept, and nothing of it is cleared.
const mostTeardownBytes = 4 << 20

// teardownSize is about how many bytes the held pods take.
func (h *Heard) teardownSize() int {
	n := 0
	for _, held := range h.Teardowns {
		n += held.size()
	}
	return n
}

// Bound is called on what was loaded: it cuts what was saved by a version without bounds.
func (h *Heard) Bound() {
	if h.bytes = h.teardownSize(); h.bytes <= mostTeardownBytes {
		return
	}
	for uid, held := range h.Teardowns {
		h.Teardowns[uid] = held.bare(held.At)
	}
	h.bytes = h.teardownSize()
}

// silence is a time within which a kubelet that still holds a volume speaks of it again: it
// tries again after 2 min 2 s at the latest (exponentialbackoff.maxDurationBeforeRetry).
const silence = 10 * time.Minute

// unbroken is the longest time between two words that are one row: the longest between two
// looks while there is an orphan, and some.
const unbroken = 6 * time.Minute

// listen notes that the kubelet was heard.
func (h *Heard) listen(at policy.Instant) {
	gap, ok := at.Since(h.Last)
	if !ok && at.BootID == h.Last.BootID {
		return // an older one, read late
	}
	if !ok || gap > unbroken {
		h.Since = at
	}
	h.Last = at
}

// over says whether the volume manager has given up, or finished: the kubelet has spoken of
// other things so long after its last word on the pod that it must have tried again. What it
// cannot reconstruct as a volume it tries to clean up once, at its start. Later it names that pod
// among all other orphans, one at a time. A backlog of such pods need not wait for each to be named.
func (h *Heard) over(by Teardown) bool {
	since, ok := h.Last.Since(by.At)
	listened, here := h.Last.Since(h.Since)
	return ok && here && min(since, listened) > silence
}

// Add takes the claims that are evident for the kubelet that runs now, and forgets what
// another kubelet said.
func (h *Heard) Add(claims []Claim, n policy.Node, now policy.Instant) {
	if n.Kubelet.Truth != policy.Yes {
		return
	}
	if h.Kubelet != n.KubeletID || h.BootID != now.BootID {
		*h = Heard{Kubelet: n.KubeletID, BootID: now.BootID}
	}
	slices.SortFunc(claims, Claim.compare)
	for _, c := range claims {
		if c.Dropped || !c.Evident(n.KubeletID, n.LogFormat, now) {
			continue
		}
		h.Trusted = h.Trusted || c.Sighting.Trusted
		h.listen(c.At)
		uid := c.Sighting.UID
		if c.Sighting.Report == parsers.ReportTeardown {
			if h.Teardowns == nil {
				h.Teardowns = map[parsers.PodUID]Teardown{}
			}
			held, ok := h.Teardowns[uid]
			if !ok && len(h.Teardowns) >= mostHeard {
				h.drop(c.At)
				continue
			}
			h.bytes -= held.size()
			held.add(c.Sighting, c.At)
			if h.bytes+held.size() > mostTeardownBytes {
				held = held.bare(c.At) // still held, and kept for it
			}
			h.bytes += held.size()
			h.Teardowns[uid] = held
			continue
		}
		// The kubelet names a pod only when its volume manager has no volume of it any more
		// (podVolumesExist). After a restart it tries once to clean up what it cannot
		// reconstruct, fails with a TearDown error, and names the pod from then on.
		if held, ok := h.Teardowns[uid]; ok && c.At.Boot > held.At.Boot {
			h.bytes -= held.size()
			delete(h.Teardowns, uid)
		}
		if !h.Named[uid] && len(h.Named) >= mostHeard {
			first := h.eldest()
			delete(h.Named, first) // it is reported again, or waits
			delete(h.NamedAt, first)
		}
		h.name(c)
	}
	for _, c := range claims {
		if c.Dropped && (c.Sighting.Trusted || !h.Trusted) {
			h.drop(c.At)
		}
	}
}

// drop notes that a tear-down error was dropped.
func (h *Heard) drop(at policy.Instant) {
	if h.Full = true; h.Dropped.BootID != at.BootID || h.Dropped.Boot < at.Boot {
		h.Dropped = at
	}
}

// eldest returns the orphan that was reported longest ago, and of several the one with the smallest UID.
func (h *Heard) eldest() parsers.PodUID {
	return slices.MinFunc(slices.Collect(maps.Keys(h.Named)), func(a, b parsers.PodUID) int {
		return cmp.Or(cmp.Compare(h.NamedAt[a].Boot, h.NamedAt[b].Boot), strings.Compare(string(a), string(b)))
	})
}

// name notes that the kubelet named the pod as an orphan, and when it did so last.
func (h *Heard) name(c Claim) {
	uid := c.Sighting.UID
	if h.Named == nil {
		h.Named = map[parsers.PodUID]bool{}
	}
	h.Named[uid] = true
	if h.NamedAt == nil {
		h.NamedAt = map[parsers.PodUID]policy.Instant{}
	}
	if at := c.Written(); at.Boot >= h.NamedAt[uid].Boot {
		h.NamedAt[uid] = at
	}
}

// spoke reports whether anything was heard of this kubelet. One that has a directory it cannot remove
// says so every 2 s, and one that cannot tear down a volume at least every 2 min 2 s; so a log in which
// there is neither, beside a directory that stays, is one that is not read. Where there is no directory
// it has nothing to say.
func (h *Heard) spoke() bool { return h.Last.BootID != "" || len(h.Named)+len(h.Teardowns) > 0 }

// Tell sets the facts that only the kubelet's log can give: FactNamed, FactAnyNamed and FactTeardown, and the
// leaves. With no kubelet running all of them stay unknown.
func (h *Heard) Tell(e *policy.Evidence, n policy.Node, now policy.Instant) {
	if n.Kubelet.Truth != policy.Yes || h.Kubelet != n.KubeletID {
		return
	}
	origin := fmt.Sprintf("log of the kubelet, PID %d", h.Kubelet.PID)
	named, anyNamed, teardown := policy.No, policy.No, policy.No
	if h.Named[e.UID] {
		named = policy.Yes
	}
	if len(h.Named) > 0 {
		anyNamed = policy.Yes
	}
	var detail string
	if !h.spoke() && !e.RuntimeOnly {
		teardown, detail = policy.Unknown, "no line of the kubelet was read since its start, so it may work on a volume: check that its log is read (--log-source)"
	}
	if h.Full && !h.over(Teardown{At: h.Dropped}) {
		teardown, detail = policy.Unknown, "the log has more errors about volumes than can be kept, so one of this pod may have been dropped"
	}
	switch by, ok := h.Teardowns[e.UID]; {
	case ok && h.over(by):
		teardown, detail = policy.No, "its volume manager could not tear down "+cmp.Or(by.Path, "a volume")+", and no longer tries"
	case ok:
		teardown, detail = policy.Yes, "the kubelet's volume manager cannot tear down "+cmp.Or(by.Path, "one of its volumes")
		if e.Leaves = by.leaves(now); e.Leaves != nil {
			detail += ": it is not empty"
		}
	}
	e.Facts.Set(policy.FactNamed, named, origin, "")
	e.Facts.Set(policy.FactAnyNamed, anyNamed, origin, policy.Count(len(h.Named), "orphan")+" named since its start")
	e.Facts.Set(policy.FactTeardown, teardown, origin, detail)
	h.omit(e, now)
	h.discount(e, now)
}

// omit lets a pod go that the kubelet's list at its socket omits, where the kubelet named any orphan before it was asked.
func (h *Heard) omit(e *policy.Evidence, now policy.Instant) {
	if e.Unlisted.Truth != policy.Yes || e.Facts[policy.FactReleased].Truth == policy.No {
		return
	}
	for uid := range h.Named {
		if at, ok := h.NamedAt[uid]; ok && at.BootID == now.BootID && at.Boot <= now.Boot {
			e.Omitted, e.Facts[policy.FactReleased] = true, e.Unlisted
			return
		}
	}
}
