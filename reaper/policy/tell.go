package policy

// Undo is the command that takes a removal back as far as it can be taken back.
func Undo(a Action) string { return "orphan-reaper quarantine restore " + string(a.UID) }

// Intent is the record that stands in the ledger before the action changes the disk.
func Intent(a Action, n Node, now Instant) Record {
	r := recordOf(a, n, now)
	r.Kind, r.TakeAll = deedOf(a).intent, a.Kind == Purge && a.Take == TakeAll
	if r.Kind.means().Restores {
		r.Undo = Undo(a)
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
	r.Kind = after(o)
	if o.ID != (DirID{}) {
		r.ID = o.ID
	}
	if r.Kind.means().Restores {
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

// Recover settles an intent whose outcome is not in the ledger, from where the directory
// is found on disk: a record that says how it ended, or the action that ends it, or
// neither, where a look must come first. An action on an entry that is no longer there
// changes nothing but what lay beside it, and its outcome says how it ended.
func Recover(e EntryState, inQuarantine bool, now Instant) (*Record, *Action) {
	do := stageOf(e.Phase).away
	if inQuarantine {
		do = stageOf(e.Phase).here
	}
	a := Action{
		Kind: do.action, UID: e.UID, Entry: e.Entry, ID: e.ID, Leaf: e.Leaf, Parked: e.Parked.At, Why: e.Why,
		ByPerson: e.Phase == PhaseRestoring, Evidence: &Evidence{UID: e.UID, Namespace: e.Namespace, PodName: e.PodName},
	}
	if a.Kind == Strip {
		a.Take = TakeStrip
	}
	switch {
	case do.record != "":
		r := recordOf(a, Node{}, now)
		r.Kind = do.record
		if r.Kind == KindParked {
			r.Kubelet, r.Undo = e.Parked.Kubelet, Undo(a)
		}
		return &r, nil
	case do.action != "":
		return nil, &a
	}
	return nil, nil
}
