package policy

import "time"

// A restarted kubelet treats a dead pod's leftover directory as a volume. If it is not empty, the kubelet retries its
// removal forever: "UnmountVolume.TearDown failed … directory not empty" (NFS and others on 1.30 to 1.36). It never reports such
// a pod as an orphan. So the pod stays in place, and only the content of that directory, the leaf, is moved to quarantine.
// The kubelet then removes the leaf and the pod's directory by itself.

// LeafSuffix ends the quarantine name of an entry that holds the content of one leaf, below the same path. The name shows
// that without the ledger: such an entry must not be exchanged with the pod's directory.
const LeafSuffix = ".leaf"

// LastWord is how long the kubelet's last report on a volume counts: it repeats it at least every 2 min 2 s.
const LastWord = 5 * time.Minute

// VolumeTeardown is the kubelet's last report on one volume that it cannot tear down.
type VolumeTeardown struct {
	At Instant `json:"at"`
	// Leaf is the directory that was not empty, from the pod directory on; "" where the
	// error was any other, or names no directory that may be touched.
	Leaf string `json:"leaf,omitempty"`
}

// clear judges a pod that the volume manager holds. Where everything else shows that it is dead, the pod is not kept: it
// waits, for a hold, then for its leaves to be cleared, then for the kubelet.
//
// No report of an orphan is needed: the error itself shows that all sources were ready (reconciler.readyToUnmount; before
// 1.27 the reconstruction waited for that).
func (j *judgement) clear(v Verdict) Verdict {
	e, now := &j.e, j.now
	if j.r.Waive || len(e.Leaves) == 0 || e.Facts[FactTeardown].Truth != Yes {
		return v
	}
	held := Why{ReasonKubeletHolds, e.Facts[FactTeardown].Detail}
	w := j.weigh(unlessCleared)
	if w.Decision == Keep {
		v.Hold, v.Again = w.Hold, w.Again // it may be paused
		return v
	}
	var full []string
	var word time.Duration = -1
	for _, leaf := range e.Leaves {
		if e.holds(leaf.Leaf) {
			full = append(full, leaf.Leaf)
		}
		if since, ok := now.Since(leaf.At); ok && (word < 0 || since < word) {
			word = since
		}
	}
	switch {
	case len(full) == 0 && (word < 0 || word > LastWord):
		return v // nothing is in its way, and it no longer tries: an operator has to act
	case len(full) == 0: // it has yet to try again
		return Verdict{Stage: v.Stage, Decision: Wait, Why: []Why{held}}
	case w.Decision == Reap:
		w.Leaves = full
	}
	w.Decision, w.Why = Wait, append([]Why{held}, w.Why...)
	return w
}

// holds reports whether anything lies in the leaf, by what the look has read of the pod.
func (e *Evidence) holds(leaf string) bool {
	for _, r := range e.Residue {
		if r.Path == leaf && (r.Entries > 1 || r.Partial) {
			return true
		}
	}
	return false
}

// PutBackCleared returns the action that puts back what was cleared less than the confirm time ago of a pod that shows a
// sign of life; nil where it stays. The question after the move may have been cut off by a crash, and the pod directory
// was never away: its volume lacks what was cleared. One try is enough, since what cannot go back now lies in the way.
func PutBackCleared(p *Judged, s EntryState, r Rules, now Instant) *Action {
	since, ok := now.Since(s.Parked.Begun)
	if s.Leaf == "" || s.Phase != PhaseConfirmed || s.Tried || p.Decision != Keep || !ok || since >= r.Confirm {
		return nil
	}
	a := s.Action(PutBack)
	a.Why, a.Evidence = p.Why, &p.Evidence
	return &a
}
