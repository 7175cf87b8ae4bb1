package policy

import "time"

// Hold remembers the first of an unbroken row of good looks at one directory.
type Hold struct {
	Since Instant `json:"since"`
	ID    DirID   `json:"id"`
	// Unwanted is since when the runtime has had the pod though it is not wanted. It is a
	// memory of its own: the rest of the hold may be zero.
	Unwanted Instant `json:"unwanted,omitzero"`
	// Paused is since when looks have met a doubt that is not about this pod, and Lost how
	// long such pauses before it took: that time does not count.
	Paused Instant       `json:"paused,omitzero"`
	Lost   time.Duration `json:"lost,omitempty"`
}

// A doubt about the node (the runtime does not answer, a process hides its mounts, the API server is away) keeps every pod
// while it lasts, and pauses the holds: the time from the doubt to the next good look does not count, the rest does. Else
// a build machine, where some process has a root of its own for a moment each minute, would begin every hold again for
// ever. A doubt about the pod itself, a sign of life, and a kubelet that is not there begin the hold again.

// longestPause bounds what the pauses of one hold may take together: beyond it the first look
// is too old to be evidence.
const longestPause = time.Hour

// The look is repeated after soonest, and then after as long as the doubt has lasted, up to latest.
const (
	soonest = 5 * time.Second
	latest  = 5 * time.Minute
)

// resume ends the pause and returns how long the evidence has been good, not counting pauses. It returns false if the
// hold starts again.
func (h *Hold) resume(of Hold, r Rules, now Instant) (time.Duration, bool) {
	since, ok := now.Since(h.Since)
	if !ok || h.ID != of.ID {
		return 0, false
	}
	if h.Paused != (Instant{}) {
		paused, ok := now.Since(h.Paused)
		if !ok {
			return 0, false
		}
		h.Lost, h.Paused = h.Lost+paused, Instant{}
	}
	// More lost than has passed is a damaged file.
	if h.Lost < 0 || h.Lost > min(since, longestPause) {
		return 0, false
	}
	good := since - h.Lost
	if good >= r.Hold { // it is long enough without what came before the pauses
		h.Since.Boot, h.Since.Wall, h.Lost = h.Since.Boot+h.Lost, h.Since.Wall.Add(h.Lost), 0
	}
	return good, true
}

// pause keeps the hold of a pod that only doubts about the node keep, and asks for another look soon. It changes nothing
// but what is remembered. of is the hold that the pod would have without the doubts.
func (v *Verdict) pause(of, h Hold, r Rules, now Instant) {
	resumed := h
	if _, ok := resumed.resume(of, r, now); !ok {
		h = Hold{Paused: h.Paused} // nothing to go on with but for how long there has been doubt
	}
	lasted, ok := now.Since(h.Paused)
	if !ok {
		lasted, h.Paused = 0, now
	}
	h.Unwanted = v.Hold.Unwanted
	v.Hold = h
	again := max(soonest, min(lasted, latest))
	if v.Again == 0 || again < v.Again {
		v.Again = again
	}
}

// hold remembers the first of the looks at the same directory, in one boot, that agree, and returns how
// long ago it was, pauses not counted.
func (v *Verdict) hold(of, h Hold, r Rules, now Instant) time.Duration {
	since, ok := h.resume(of, r, now)
	if !ok {
		since, h = 0, Hold{Since: now}
	}
	v.Hold.Since, v.Hold.ID, v.Hold.Lost = h.Since, of.ID, h.Lost
	return since
}
