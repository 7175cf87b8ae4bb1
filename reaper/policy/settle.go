package policy

import "time"

// Below these shares of free space or inodes the retention of ephemeral data shrinks to
// pressedRetention: the kubelet evicts living pods at nodefs.available<10% and
// nodefs.inodesFree<5% (its default thresholds), and dead ones must go first.
const (
	pressedBytes     = 0.15
	pressedInodes    = 0.08
	pressedRetention = 10 * time.Minute
)

// Pressed says whether the file system nears the kubelet's eviction thresholds.
func (n Node) Pressed() bool {
	return (n.FreeBytes >= 0 && n.FreeBytes < pressedBytes) || (n.FreeInodes >= 0 && n.FreeInodes < pressedInodes)
}

// Due says whether a quarantine entry has something to wait for that a look can settle:
// it is parked, or half removed, or holds ephemeral data past its retention.
func Due(e EntryState, r Rules, now Instant, pressed bool) bool {
	left, ephemeral := PurgeIn(e, r, now, pressed)
	return stageOf(e.Phase).due || ephemeral && left <= 0
}

// PurgeIn says how long the ephemeral data of a held entry still stays, and false where it
// holds none.
func PurgeIn(e EntryState, r Rules, now Instant, pressed bool) (time.Duration, bool) {
	ephemeral := false
	for _, l := range e.Left {
		ephemeral = ephemeral || l.Class == ClassEphemeral
	}
	if !ephemeral || e.Phase != PhaseHeld {
		return 0, false
	}
	retention := r.Retention
	if pressed {
		retention = min(retention, pressedRetention)
	}
	since, ok := now.Since(e.HeldSince)
	if !ok {
		// Another boot: only the wall clock knows, and one that was set knows nothing. A machine
		// without a battery clock boots into its past and then leaps over years. It has been held
		// for all of this boot, and that much is certain.
		since = min(max(0, now.Wall.Sub(e.HeldSince.Wall)), now.Boot)
	}
	return retention - since, true
}

// SettleEntry says what becomes of one quarantine entry that is due, and the action for
// it, nil where there is none.
func SettleEntry(e Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	if e.Namespace == "" && e.PodName == "" {
		e.Namespace, e.PodName = s.Namespace, s.PodName
	}
	v, action := settle(e, n, s, r, now)
	if action == nil || n.MayEnforce.Truth != Yes {
		return v, nil
	}
	if n.Agrees.Truth != Yes && action.Kind != PutBack {
		v.turn(SettleWait, ReasonContradiction, n.Agrees.Detail)
		return v, nil
	}
	action.UID, action.Entry, action.ID, action.Leaf, action.Evidence, action.Why = s.UID, s.Entry, s.ID, s.Leaf, &e, v.Why
	action.Parked = s.Parked.At
	return v, action
}

func settle(e Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	switch f := e.Facts[FactDirectory]; f.Truth {
	case Yes:
	case No:
		// Somebody moved it away: the action finds nothing and the ledger learns that it is
		// gone. Should it be there after all, what was not confirmed is not stripped for that.
		if s.Phase == PhaseParked {
			return ParkedVerdict{Settle: SettlePutBack}, &Action{Kind: PutBack}
		}
		return ParkedVerdict{Settle: SettleStrip}, &Action{Kind: Strip, Take: TakeStrip}
	case Unknown:
		return ParkedVerdict{Settle: SettleWait, Why: []Why{{ReasonContentUnknown, unknownDetail(FactDirectory, f)}}}, nil
	}
	if s.Phase != PhaseParked {
		return finish(e, n, s, r, now)
	}
	if e.ID != s.ID {
		return ParkedVerdict{Settle: SettlePutBack, Why: []Why{{ReasonCannotMove, "it is another directory than the one that was judged"}}},
			&Action{Kind: PutBack}
	}
	v := JudgeParked(e, n, s.Parked, r, now)
	switch v.Settle {
	case SettleStrip:
		return v, &Action{Kind: Strip, Take: TakeStrip}
	case SettlePutBack:
		return v, &Action{Kind: PutBack}
	case SettleWait, SettleConflict:
	}
	return v, nil
}

// finish goes on with what was begun, or purges what is due, once nothing is mounted or in
// use there and the pod shows no sign of life: a strip that was cut short may be days old,
// and a static pod comes again with its UID. What is half stripped is never put back: an
// old kubelet that finds a half-cleared directory deletes through its binds. It waits for a
// person.
func finish(e Evidence, n Node, s EntryState, r Rules, now Instant) (ParkedVerdict, *Action) {
	v := Lives(e, n, s, r, now)
	for _, rule := range parkedRules {
		if rule.fact != FactMounted && rule.fact != FactInUse {
			continue
		}
		switch f := e.Facts[rule.fact]; f.Truth {
		case No:
		case Yes:
			v.turn(SettleWait, rule.alive, f.Detail)
		case Unknown:
			v.turn(SettleWait, rule.unknown, unknownDetail(rule.fact, f))
		}
	}
	switch {
	case v.Settle != SettleStrip:
		return v, nil
	case s.Phase == PhaseStripping:
		return v, &Action{Kind: Strip, Take: TakeStrip}
	case s.Phase == PhasePurging && s.TakeAll: // a person asked for it, and it was cut short
		return v, &Action{Kind: Purge, Take: TakeAll}
	}
	return v, &Action{Kind: Purge, Take: TakeAged}
}

// Unproven says whether the pod still has to prove dead: one that waits only for a process
// to let go of a file does not hold up the others.
func (v ParkedVerdict) Unproven() bool {
	if v.Settle != SettleWait {
		return false
	}
	for _, w := range v.Why {
		if w.Reason != ReasonInUse {
			return true
		}
	}
	return false
}
