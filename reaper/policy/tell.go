package policy

// Undo is the command that takes a removal back as far as it can be taken back.
func Undo(a Action) string { return "orphan-reaper quarantine restore " + string(a.UID) }

// Intent is the record that stands in the ledger before the action changes the disk.
func Intent(a Action, n Node, now Instant) Record {
	r := recordOf(a, n, now)
	switch a.Kind {
	case Park:
		r.Kind, r.Undo = KindParking, Undo(a)
	case Clear:
		r.Kind, r.Undo = KindClearing, Undo(a)
	case PutBack:
		r.Kind = KindPutting
		if a.ByPerson {
			r.Kind = KindRestoring
		}
	case Strip:
		r.Kind = KindStripping
	case Purge:
		r.Kind, r.TakeAll = KindPurging, a.Take == TakeAll
	case RemoveSandbox:
		r.Kind = KindRemovingSandbox
	}
	return r
}

func recordOf(a Action, n Node, now Instant) Record {
	r := Record{At: now, UID: a.UID, Entry: a.Entry, ID: a.ID, Leaf: a.Leaf, Sandbox: a.Sandbox.ID, Why: a.Why, Kubelet: n.KubeletID}
	if a.Evidence != nil {
		r.Namespace, r.PodName = a.Evidence.Namespace, a.Evidence.PodName
	}
	return r
}

// Recorded tells the outcome of one action, in one record or, for a conflict, two.
func Recorded(o Outcome, n Node, now Instant) []Record {
	r := recordOf(o.Action, n, now)
	if len(o.Why) > 0 {
		r.Why = o.Why
	}
	r.Err, r.Left, r.VolData = o.Err, o.Left, o.VolData
	for class, t := range o.Taken {
		if r.Taken == nil {
			r.Taken = map[string]Tally{}
		}
		r.Taken[class.String()] = t
	}
	r.Kind = kindOf(o)
	if o.ID != (DirID{}) {
		r.ID = o.ID
	}
	if r.Kind == KindParked || r.Kind == KindStripped || r.Kind == KindCleared {
		r.Undo = Undo(o.Action)
	}
	switch o.Conflict {
	case "":
		return []Record{r}
	case o.Action.Entry:
		// It stays in quarantine, whatever was to become of it: the pod has another directory.
		r.Kind = KindConflict
		if e := o.Action.Evidence; e != nil && r.Leaf == "" {
			was := EntryState{UID: r.UID, Entry: r.Entry, ID: r.ID, Left: e.Residue}
			again := *e
			again.Facts[FactRemade].Truth = Yes // since the look, at the latest
			r.Merge, r.Left = Frozen(again, was, ParkedVerdict{}, n, now).Merge, e.Residue
		}
		return []Record{r}
	}
	c := r
	c.Kind, c.Entry, c.ID, c.Err = KindConflict, o.Conflict, DirID{}, ""
	return []Record{r, c}
}

// kindOf names the record of an outcome. A failure leaves the intent open: the next pass
// settles it from the disk.
func kindOf(o Outcome) Kind {
	ended := o.Ended()
	switch o.Action.Kind {
	case Park:
		switch o.Result {
		case Done:
			return KindParked
		case Gone, Refused:
			return KindNotParked
		case Partly, Failed, Conflict:
		}
	case Clear:
		switch o.Result {
		case Done:
			return KindCleared
		case Gone, Refused:
			return KindNotCleared
		case Partly, Failed, Conflict:
		}
	case PutBack:
		if o.Result == Partly {
			return KindCleared // it cannot go back, and lies in quarantine as before
		}
		if ended && o.Action.ByPerson && o.Result != Gone {
			return KindRestored
		}
		if o.Result == Gone {
			return KindRemoved // it is neither in quarantine nor back
		}
		if ended {
			return KindPutBack
		}
	case RemoveSandbox:
		switch o.Result {
		case Done:
			return KindRemovedSandbox
		case Gone, Refused:
			return KindKeptSandbox
		case Partly, Failed, Conflict:
		}
	case Strip, Purge:
		if ended {
			return KindRemoved
		}
		if o.Result == Partly {
			return KindStripped
		}
	}
	return KindFailed
}

// Recover settles an intent whose outcome is not in the ledger, from where the directory
// is found on disk: a record that says how it ended, or the action that ends it, or
// neither, where a look must come first. An action on an entry that is no longer there
// changes nothing but what lay beside it, and its outcome says how it ended.
func Recover(e EntryState, inQuarantine bool, now Instant) (*Record, *Action) {
	a := &Action{UID: e.UID, Entry: e.Entry, ID: e.ID, Leaf: e.Leaf, Parked: e.Parked.At, Why: e.Why, Evidence: &Evidence{
		UID: e.UID, Namespace: e.Namespace, PodName: e.PodName,
	}}
	switch e.Phase {
	case PhaseParking:
		if inQuarantine {
			// It was moved. The confirm time begins anew.
			return &Record{
				Kind: KindParked, At: now, UID: e.UID, Entry: e.Entry, ID: e.ID, Why: e.Why,
				Kubelet: e.Parked.Kubelet, Namespace: e.Namespace, PodName: e.PodName, Undo: Undo(*a),
			}, nil
		}
		a.Kind = PutBack
	case PhaseClearing:
		if !inQuarantine {
			return &Record{
				Kind: KindNotCleared, At: now, UID: e.UID, Entry: e.Entry, Leaf: e.Leaf, Why: e.Why,
				Namespace: e.Namespace, PodName: e.PodName,
			}, nil
		}
		// It was judged before the crash, perhaps before a reboot, so it is undone.
		a.Kind = PutBack
	case PhasePutting, PhaseRestoring:
		a.Kind, a.ByPerson = PutBack, e.Phase == PhaseRestoring
	case PhaseStripping, PhasePurging:
		if inQuarantine {
			return nil, nil
		}
		a.Kind, a.Take = Strip, TakeStrip
	case PhaseNone, PhaseParked, PhaseHeld, PhaseConflict, PhaseUnlisted, PhaseSweeping, PhaseGone:
		return nil, nil
	}
	return nil, a
}
