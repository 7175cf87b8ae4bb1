package judge

// Standing is all that decides whether this process may change anything now, whatever is known about one pod.
type Standing struct {
	Node    Node
	Breaker bool // the circuit breaker is open
	Observe bool // the daemon's mode, which does not bind sweep, unmount and quarantine
	DryRun  bool
	// Unmovable is why the quarantine cannot be used (Disk.Movable), "" if it can.
	Unmovable string
	// Operator is true for an operator's command about an entry of the quarantine. An open breaker does not stop it, and no
	// kubelet has to run.
	Operator bool
}

// Permit is the right to change the node now. Only Gate grants one; the zero value permits nothing.
type Permit struct {
	restore, remove bool
	stopped         Reason
}

// MayRestore reports whether a quarantined pod may be moved back.
func (p Permit) MayRestore() bool { return p.restore }

// MayRemove reports whether something may be moved to quarantine or removed.
func (p Permit) MayRemove() bool { return p.remove }

// Stopped returns why nothing may be moved or removed. It returns false if something may.
func (p Permit) Stopped() (Reason, bool) { return p.stopped, !p.remove }

// Gate is the one function that decides whether this process may change anything now. An operator's restore renames whole
// directories and removes nothing, so it detaches no mount and may come from any mount namespace. A removal may detach a mount
// that only another mount namespace has, so for that this process must see the node's mounts.
//
// A call that does not return (the reason stuck) needs no rule: the loop waits for it, and changes nothing meanwhile.
//
// A dry run gets no right, and the reason that stops others, too, if there is one.
func (s Standing) Gate() Permit {
	p := s.gate()
	if s.DryRun {
		if p.remove {
			p.stopped = Reason{Reason: DryRun, Detail: "a dry run changes nothing"}
		}
		p.restore, p.remove = false, false
	}
	return p
}

func (s Standing) gate() Permit {
	sees := s.Node.SeesMounts.Truth == Yes
	p := Permit{restore: sees || s.Operator}
	switch {
	case s.Observe:
		// What an earlier daemon has moved is restored all the same if its pod is alive.
		p.stopped = Reason{Reason: ModeObserve, Detail: "the mode is observe"}
	case !sees:
		p.stopped = Reason{Reason: NotVisible, Detail: s.Node.SeesMounts.Detail}
	case s.Operator:
		p.remove = true
	case s.Unmovable != "":
		p.stopped = Reason{Reason: CannotMove, Detail: s.Unmovable, Operator: true}
	case s.Breaker:
		p.stopped = Reason{Reason: BreakerOpen, Detail: "a quarantined pod turned out to be alive", Operator: true}
	case s.Node.KubeletKnown.Truth != Yes:
		p.stopped = Reason{Reason: NoKubelet, Detail: s.Node.KubeletKnown.Detail}
	default:
		p.remove = true
	}
	return p
}
