package policy

import "time"

// Hold remembers the first of an unbroken row of good looks at one directory.
type Hold struct {
	Since Instant `json:"since"`
	ID    DirID   `json:"id"`
	// Unwanted is since when the runtime has had the pod though it is not wanted. It is a
	// memory of its own: the rest of the hold may be zero.
	Unwanted Instant `json:"unwanted,omitzero"`
	// Ended is since when stopped sandboxes have been all that is left of the pod. It is a memory
	// of its own, too.
	Ended Instant `json:"ended,omitzero"`
	// Paused is since when looks have met a doubt that is not about this pod, and Lost how
	// long such pauses before it took: that time does not count.
	Paused Instant       `json:"paused,omitzero"`
	Lost   time.Duration `json:"lost,omitempty"`
	// Wanted is true where the hold ran while silence could not release the pod, since its kubelet kept its
	// log directory or listed its name, or that was not known: see sinceSilent.
	Wanted bool `json:"wanted,omitempty"`
}

// A doubt about the node (the runtime does not answer, a process hides its mounts, the API server is away) keeps every pod
// while it lasts, and pauses the holds: the time from the doubt to the next good look does not count, the rest does. Else
// a build machine, where some process has a root of its own for a moment each minute, would begin every hold again for
// ever. A doubt about the pod itself, a sign of life, and a kubelet that is not there or has just started begin the hold
// again.

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
	h.Unwanted, h.Wanted = v.Hold.Unwanted, h.Wanted || of.Wanted
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
	v.Hold.Since, v.Hold.ID, v.Hold.Lost, v.Hold.Wanted = h.Since, of.ID, h.Lost, h.Wanted || of.Wanted
	return since
}

// sinceSilent returns the hold without the time before silence could release the pod. Any program can remove the log
// directory that shows that a pod is wanted, so what silence alone releases then has a hold of its own.
func (h Hold) sinceSilent(of Hold, silent bool) Hold {
	if h.Wanted && !of.Wanted && silent {
		h.Since, h.Wanted = Instant{}, false
	}
	return h
}

// ReleasedByKubelet reports whether the running kubelet reported the pod as an orphan, or its complete list omits it.
func (e *Evidence) ReleasedByKubelet() bool { return e.Facts[FactNamed].Truth == Yes || e.Omitted }

// holdOf returns the hold of a pod: HoldReported, if that is shorter, for one that the kubelet itself releases, else Hold.
// The kubelet reports a pod only once no volume of it is in use, and would remove the directory in that very run. For
// others the node's silence is the only evidence, which has to last longer. HoldReported 0 leaves it at Hold.
func (r Rules) holdOf(e *Evidence) time.Duration {
	if r.HoldReported > 0 && !r.Waive && e.ReleasedByKubelet() {
		return min(r.Hold, r.HoldReported)
	}
	return r.Hold
}
