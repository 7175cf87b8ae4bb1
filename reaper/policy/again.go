package policy

import (
	"strings"
	"time"
)

// A parked pod may live again under its UID, with a directory that its kubelet made again: a static pod whose manifest came
// back, or one that was judged wrongly. If the new directory is used it stays, since containers hold binds and mounts of
// it, and the elder stays in quarantine until an operator has merged the two.

// Span is the range of time in which the runtime made what it lists of a pod: sandboxes and containers.
type Span struct {
	First, Last time.Time
	// Undated is true where the runtime does not report of each when it was made.
	Undated bool
}

// Add takes one more into the span; the zero time is of one that is not dated.
func (s *Span) Add(t time.Time) {
	if t.IsZero() {
		s.Undated = true
		return
	}
	if s.First.IsZero() || t.Before(s.First) {
		s.First = t
	}
	if t.After(s.Last) {
		s.Last = t
	}
}

// since returns the earliest time that the moment at can have by the wall clock of now, which may have been set in either
// direction since. A clock that was set back and forth again leaves no trace: what was made meanwhile looks older, and the
// breaker may open without need.
func (i Instant) since(at Instant) time.Time {
	age, ok := i.Since(at)
	if !ok {
		age = i.Boot // in an earlier boot, so before this one began
	}
	if by := i.Wall.Add(-age); by.Before(at.Wall) {
		return by
	}
	return at.Wall
}

// Used reports whether the directory that was made again is used: by a mount, an open file or its content (FactUsed), or
// by a container that is younger than the parking. An older one holds binds of the parked directory.
//
// A kubelet sets up a pod's volumes once, then its sandbox, then its containers (Kubelet.SyncPod). So a mount in the elder,
// or a younger sandbox beside a new directory without a volume, shows that the volumes are in the elder: the containers
// cannot start before the two have changed places.
func Used(e Evidence, p Parked, r Rules, now Instant) Fact {
	used := e.Facts[FactUsed]
	if used.Truth == Yes || used.Truth == No && e.Elder.Truth == Yes {
		return used
	}
	for _, n := range [...]FactName{FactSandbox, FactContainer} {
		f := e.Facts[n]
		switch {
		case f.Truth == No, f.Truth == Unknown && r.Waive, used.Truth == No && onlySandboxes(e):
		case f.Truth == Yes && !e.Made.Last.Before(now.since(p.At)):
			return Fact{Truth: Yes, Origin: f.Origin, Detail: strings.TrimSpace("younger than the parking: " + f.Detail)}
		case f.Truth == Unknown:
			used = Fact{Origin: f.Origin, Detail: unknownDetail(n, f)}
		case e.Made.Undated || e.Made.Last.IsZero():
			used = Fact{Origin: f.Origin, Detail: strings.TrimSpace("the runtime does not report when it was made: " + f.Detail)}
		}
	}
	if used.Truth == Unknown && used.Detail == "" {
		used.Detail = unknownDetail(FactUsed, used)
	}
	return used
}

func onlySandboxes(e Evidence) bool {
	return e.Facts[FactSandbox].Truth == Yes && e.Facts[FactContainer].Truth == No
}

// mayReturn reports whether the pod may come back under its UID: a static pod, whose manifest or URL gives it
// the UID that it had. A pod of the API server never does.
func mayReturn(e Evidence) bool {
	return e.Static || e.Facts[FactStaticPod].Truth == Yes || len(e.UID) == StaticUIDLen
}

// StaticUIDLen is the length of the UIDs that the kubelet itself gives to static pods: an MD5 up to 1.34, an
// FNV-128a since, in hexadecimal. The API server's have 36 characters.
const StaticUIDLen = 32

// returned reports whether a static pod came back although it was dead when it was judged: what the runtime has of it is
// younger than the parking. Without an answer of the runtime the pod counts as back: its cgroup may come before that.
func returned(e Evidence, p Parked, now Instant) bool {
	parking := p.At
	if p.Begun != (Instant{}) { // of what a crash cut short, At is when the next start found it
		parking = p.Begun
	}
	return mayReturn(e) && (!runs(e) || !e.Made.Undated && !e.Made.First.Before(now.since(parking)))
}

func runs(e Evidence) bool {
	return e.Facts[FactSandbox].Truth == Yes || e.Facts[FactContainer].Truth == Yes
}

// again decides about a parked pod that has a directory again. A used one stays. If nothing uses it, the two change
// places: older containers hold binds of the parked one, and volumes set up during the parking are in it. A static pod
// that has just come back waits before it has a sandbox, since it is about to use the new one.
func (v *Verdict) again(e Evidence, p Parked, r Rules, now Instant) {
	cameBack := returned(e, p, now)
	if cameBack {
		v.Alive = false
	}
	remade := e.Facts[FactRemade]
	if remade.Truth != Yes {
		return
	}
	v.Back = cameBack
	switch used := Used(e, p, r, now); {
	case used.Truth == Yes:
		v.keep(Keep, ReasonRemade, "")
		v.word(ReasonRemade, join(remade.Detail, "and is used: "+used.Detail))
	case used.Truth == Unknown:
		v.Decision = Wait
		v.word(ReasonRemade, join(remade.Detail, "it is not known whether it is used: "+used.Detail))
	case cameBack && v.Decision == Return && e.Elder.Truth != Yes && !runs(e):
		v.Decision = Wait
		v.word(ReasonRemade, join(remade.Detail, "nothing uses it yet"))
	}
}

// word replaces the detail of a reason that the verdict has.
func (v *Verdict) word(reason Reason, detail string) {
	for i := range v.Why {
		if v.Why[i].Reason == reason {
			v.Why[i].Detail = detail
		}
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// Lives looks for signs of life of a pod that was confirmed dead and whose residue is in quarantine. Decision is Keep
// if there is one, Wait if one is in doubt, else Reap. The directory of a pod of which only a leaf was cleared was never
// away.
func Lives(e Evidence, n Node, s EntryState, r Rules, now Instant) Verdict {
	v := Verdict{Stage: Resting, Decision: Reap}
	for _, rule := range rules {
		if !rule.has(sign) || rule.fact == FactRemade && s.Leaf != "" {
			continue
		}
		counts := !r.silent(rule) && (s.Phase == PhaseStripping || rule.has(doubt) && !n.noRuntime(rule))
		if v.read(rule, &e, Keep, counts) {
			v.Alive = v.Alive || rule.has(breaks)
		}
	}
	if v.Alive && returned(e, s.Parked, now) {
		v.Alive = false
	}
	return v
}
