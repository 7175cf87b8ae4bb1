package judge

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Hold is what the scans before have seen of one pod. The zero value has seen nothing. It is kept in memory only: after a
// restart every hold begins again.
type Hold struct {
	// Since is when the first scan of an unbroken row of good scans began; zero if the last scan was not good. A scan is
	// good if every fact but Reported and Eligible lets the pod pass. The age of the volumes is no part of it: their three
	// minutes run beside the hold.
	Since Instant
	// ID and Sum are the directory and its skeleton as all of these scans have seen them.
	ID  FileID
	Sum uint64
	// Youngest is the time of the youngest volume, and Seen when a scan has seen that time first.
	Youngest time.Time
	Seen     Instant
}

// Next returns the hold after a scan with these facts.
func (h Hold) Next(c Case, facts Facts) Hold {
	p := c.Pod
	if h.ID != p.ID {
		h = Hold{ID: p.ID}
	}
	if h.Sum != p.Skeleton.Sum {
		h.Sum, h.Since = p.Skeleton.Sum, Instant{}
	}
	if h.Seen == (Instant{}) || !h.Youngest.Equal(p.Skeleton.Youngest) {
		h.Youngest, h.Seen = p.Skeleton.Youngest, c.Now
	}
	finished := true
	for _, r := range table {
		f := facts[r.fact]
		switch {
		case r.fact == Reported || r.fact == Eligible || f.Truth == r.passes:
		case r.fact == Directory && p.Facts[Directory].Truth == Yes: // only its volumes are young
		case f.Busy: // a scan that was not finished does not count, and does not end the row of good scans
			finished = false
		default:
			h.Since = Instant{}
			return h
		}
	}
	if !finished {
		return h
	}
	if h.Since == (Instant{}) {
		h.Since = c.Now
	}
	return h
}

// eligible returns the fact Eligible of a pod whose other facts are these.
func (c *Case) eligible(facts Facts) Fact {
	hold := c.Restored.hold(c.Settings.Hold)
	h := c.Hold.Next(*c, facts)
	since, _ := c.Now.Since(h.Since)
	switch {
	case h.Since == (Instant{}):
		return Fact{Truth: No, Detail: "the hold of " + hold.String() + " begins with the first scan in which every other fact is good"}
	case since < hold:
		return Fact{Truth: No, Detail: "every other fact has been good for " + since.Round(time.Second).String() + " of the hold of " + hold.String()}
	}
	return Fact{Truth: Yes, Detail: "every other fact has been good for " + since.Round(time.Second).String()}
}

// left returns how much of the pod's hold is left, or of the time for its volumes, and false if no hold runs.
func (c *Case) left(h Hold) (time.Duration, bool) {
	since, ok := c.Now.Since(h.Since)
	_, young := c.young()
	return max(c.Restored.hold(c.Settings.Hold)-since, young), ok
}

// longestHold bounds the hold of a pod that was restored because it was alive.
const longestHold = 24 * time.Hour

// hold returns the hold of a pod: ten times as long after it was restored because it was alive, and twice that each time more.
func (r *Restoration) hold(hold time.Duration) time.Duration {
	if r == nil || r.Operator || r.Times <= 0 {
		return hold
	}
	hold *= 10
	for range r.Times - 1 {
		if hold >= longestHold {
			break
		}
		hold *= 2
	}
	return min(hold, longestHold)
}

// restored returns the fact Restored.
func (c *Case) restored() Fact {
	r := c.Restored
	if r == nil || !r.Operator {
		return Fact{Truth: No, Source: "ledger"}
	}
	return Fact{
		Truth: Yes, Source: "ledger",
		Detail: "an operator restored it at " + r.At.Wall.UTC().Format(time.RFC3339),
	}
}

// silence is for how long the kubelet has not reported a pod that an operator restored, when the pod is judged again.
const silence = time.Hour

// Silent returns the pods that an operator restored and that the kubelet has not reported for an hour, sorted. Silence counts
// only from listening on: since then a report about any pod would have been read, and no kept pod was reported, which would
// hide the others.
func Silent(in Input, listening Instant) []parsers.PodUID {
	n := in.Snapshot.Node
	if since, ok := in.Now.Since(listening); !ok || since < silence || n.KubeletKnown.Truth != Yes || in.Now.Boot-n.Kubelet.Start < silence {
		return nil
	}
	var silent []parsers.PodUID
	for uid, r := range in.Restored {
		log := in.Logs[uid]
		recent := func(at Instant) bool {
			since, ok := in.Now.Since(at)
			return ok && since < silence
		}
		if r.Operator && !slices.ContainsFunc([]Instant{r.At, log.Removal.At, log.Volumes.At}, recent) {
			silent = append(silent, uid)
		}
	}
	slices.Sort(silent)
	return silent
}
