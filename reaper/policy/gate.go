package policy

import "github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"

const breakerOpen = "a quarantined pod turned out to be alive; inspect it with orphan-reaper quarantine list, then run orphan-reaper quarantine resume"

// Standing is all that decides whether this process may change the node now, whatever the evidence on one pod.
type Standing struct {
	Node    Node
	Breaker bool // open: a parked pod turned out to live, and no operator has run quarantine resume
	Rules   Rules
	DryRun  bool
	// ByPerson is true for an operator's command on what lies in quarantine. Neither mode nor breaker forbids it.
	ByPerson bool
}

// Permit is the right to change the node. Only Gate grants one: every function that changes the node takes it. The
// zero value permits nothing.
type Permit struct{ undo, remove bool }

// Gate is the one place that decides whether this process may change the node now. An open breaker, and a
// setting that contradicts the running kubelet, leave only the way back.
//
// An operator may put back from anywhere: a rename that replaces nothing takes mounts along and detaches none. To
// remove, this process must see the mounts of the node.
func (s Standing) Gate() Permit {
	if s.DryRun {
		return Permit{}
	}
	sees := s.Node.MayEnforce.Truth == Yes
	if s.ByPerson {
		return Permit{undo: true, remove: sees}
	}
	_, stopped := Stops(s.Node, s.Breaker, s.Rules)
	return Permit{undo: sees && !s.Rules.Observe, remove: !stopped}
}

// Undoes reports whether what was moved or removed may be put back.
func (p Permit) Undoes() bool { return p.undo }

// Removes reports whether something may be moved to quarantine or removed.
func (p Permit) Removes() bool { return p.remove }

// Allows reports whether the action may be carried out. One that takes nothing only closes what is over.
func (p Permit) Allows(a Action) bool {
	if a.Kind == PutBack || a.Kind == Strip && a.Take == contents.TakeNone {
		return p.undo
	}
	return p.remove
}

// Stops says what stops all enforcing, whatever the evidence says; false where nothing does.
// breaker says that the breaker is open: a parked pod turned out to live, and no person has said go on.
func Stops(n Node, breaker bool, r Rules) (Why, bool) {
	switch {
	case n.MayEnforce.Truth != Yes:
		return Why{ReasonNamespaces, n.MayEnforce.Detail}, true
	case n.Agrees.Truth != Yes:
		return Why{ReasonContradiction, n.Agrees.Detail}, true
	case breaker:
		return Why{ReasonBreaker, breakerOpen}, true
	case r.Observe:
		return Why{ReasonObserve, "mode observe changes nothing"}, true
	}
	return Why{}, false
}

// Gate keeps what the rules would let go where something stops all enforcing.
func (v *Verdict) Gate(n Node, breaker bool, r Rules) {
	if why, stopped := Stops(n, breaker, r); stopped && v.Decision == Reap {
		v.keep(Keep, why.Reason, why.Detail)
	}
}
