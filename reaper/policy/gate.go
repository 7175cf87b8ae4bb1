package policy

const breakerOpen = "a pod that was parked showed life; look at orphan-reaper quarantine list before orphan-reaper quarantine resume"

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
