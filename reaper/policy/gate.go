package policy

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Stopped reports whether the node or this process is the reason, and not the pod.
func Stopped(why []Why) bool {
	return slices.ContainsFunc(why, func(w Why) bool {
		return w.Reason == ReasonBreaker || w.Reason == ReasonNamespaces || w.Reason == ReasonContradiction
	})
}

const breakerOpen = "a quarantined pod turned out to be alive; inspect it with orphan-reaper quarantine list, then run orphan-reaper quarantine resume"

// Standing is all that decides whether this process may change the node now, whatever the evidence on one pod.
type Standing struct {
	Node    Node
	Breaker bool // open: a parked pod turned out to be alive, and no operator has run quarantine resume
	Rules   Rules
	DryRun  bool
	// ByPerson is true for an operator's command on what lies in quarantine. Neither mode nor breaker forbids it.
	ByPerson bool
}

// Permit is the right to change the node. Only Gate grants one: every function that changes the node needs one. The
// zero value permits nothing.
type Permit struct {
	undo, remove bool
	stops        Why
}

// Gate is the one place that decides whether this process may change the node now. An open breaker, and a setting that
// contradicts the running kubelet, allow only to put back. An operator may put back from any mount namespace: a rename
// that replaces nothing detaches no mount. To remove, this process must see the mounts of the node.
func (s Standing) Gate() Permit {
	n := &s.Node
	if s.DryRun {
		return Permit{}
	}
	sees := n.MayEnforce.Truth == Yes
	if s.ByPerson {
		return Permit{undo: true, remove: sees}
	}
	p := Permit{undo: sees && !s.Rules.Observe}
	switch {
	case !sees:
		p.stops = Why{ReasonNamespaces, n.MayEnforce.Detail}
	case n.Agrees.Truth != Yes:
		p.stops = Why{ReasonContradiction, n.Agrees.Detail}
	case s.Breaker:
		p.stops = Why{ReasonBreaker, breakerOpen}
	case s.Rules.Observe:
		p.stops = Why{ReasonObserve, "mode observe changes nothing"}
	default:
		p.remove = true
	}
	return p
}

// Undoes reports whether what was moved or removed may be put back.
func (p Permit) Undoes() bool { return p.undo }

// MayRemove reports whether something may be moved to quarantine or removed.
func (p Permit) MayRemove() bool { return p.remove }

// Stops returns why nothing may be removed, and false where something may.
func (p Permit) Stops() (Why, bool) { return p.stops, !p.remove }

// Allows reports whether the action may be carried out. A strip that removes nothing only records that the entry is gone.
func (p Permit) Allows(a Action) bool {
	if a.Kind == PutBack || a.Kind == Strip && a.Take == contents.TakeNone {
		return p.undo
	}
	return p.remove
}

// Goes reports whether something of what was judged is to be moved or removed.
func (v *Verdict) Goes() bool { return v.Decision == Reap || len(v.Leaves) > 0 }

// Gate keeps what the rules would release where the permit removes nothing. An entry of the quarantine waits.
func (v *Verdict) Gate(p Permit) {
	why, stopped := p.Stops()
	switch {
	case !stopped || !v.Goes():
	case v.Stage == InQuarantine:
		v.WaitFor(0, why.Reason, why.Detail)
	default:
		v.KeepFor(why.Reason, why.Detail)
	}
}
