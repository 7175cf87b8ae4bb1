package policy

// The life of what lies in quarantine:
//
//	pods/UID --Park--> parked --Strip--> held --Purge--> gone
//	                     |                '--PutBack by an operator--> pods/UID
//	                     '--PutBack--> pods/UID, or conflict where that was made again and is used
//
// Clear moves what lies in one leaf straight to held. Before each action its intent is a record, and after it its
// outcome: the table deeds has both, and what ends an intent whose outcome a crash cut off. The table meanings
// (kinds.go) has the phase after each kind of record. A new kind is a constant and a row there. A new action is a row
// here, and a case in Memory.Ended, in Action's methods, in reaper/removal and in the views.

// Kind is what a record reports.
type Kind string

// The kinds of records. Those that end in "ing" are intents: they are written to the ledger before the disk changes, and
// are not shown.
const (
	KindKept         Kind = "kept"          // a verdict, when its reasons changed
	KindParking      Kind = "parking"       // intent
	KindParked       Kind = "parked"        // moved to quarantine
	KindNotParked    Kind = "not-parked"    // refused, or the kubelet was faster
	KindPutting      Kind = "putting"       // intent: back to the pods directory
	KindPutBack      Kind = "put-back"      // back in the pods directory
	KindClearing     Kind = "clearing"      // intent
	KindCleared      Kind = "cleared"       // what lay in one leaf is in quarantine, and stays there
	KindNotCleared   Kind = "not-cleared"   // refused, or there was nothing in it
	KindStripping    Kind = "stripping"     // intent
	KindStripped     Kind = "stripped"      // what holds no data is gone, the rest stays in quarantine
	KindRemoved      Kind = "removed"       // nothing is left of it
	KindPurging      Kind = "purging"       // intent
	KindRestoring    Kind = "restoring"     // intent, by an operator
	KindRestored     Kind = "restored"      // by an operator
	KindForgotten    Kind = "forgotten"     // by an operator: that the pod was restored
	KindUnmounting   Kind = "unmounting"    // intent, by an operator
	KindUnmounted    Kind = "unmounted"     // by an operator: some or all of what was mounted of a dead pod
	KindNotUnmounted Kind = "not-unmounted" // an operator's unmount that changed nothing
	KindConflict     Kind = "conflict"      // of two directories of one pod, one stays in quarantine
	KindFailed       Kind = "failed"        // an action that an operator should inspect
	KindBreaker      Kind = "breaker"       // enforcing stopped
	KindResumed      Kind = "resumed"       // an operator resumed it
	KindCNIRemoving  Kind = "sweeping"      // intent: files of CNI, archived
	KindCNIRemoved   Kind = "swept"         // files of CNI, one batch
	KindCNIRestored  Kind = "unswept"       // files of CNI put back by an operator
	KindQuiet        Kind = "quiet"         // the kubelet's message about a pod, or several, has stopped
	KindStillNamed   Kind = "still-named"   // it has not, although the directory is gone
	KindStarted      Kind = "started"       // the daemon
	KindStopped      Kind = "stopped"       // the daemon
)

// Phase is where a quarantine entry stands, as the ledger records it.
type Phase string

// The phases. PhaseParking, PhaseClearing, PhasePutting, PhaseStripping, PhasePurging and
// PhaseRestoring are intents whose outcome is not written down: after a crash, Recover closes them by what is on disk.
const (
	PhaseNone      Phase = ""
	PhaseParking   Phase = "parking"
	PhaseParked    Phase = "parked"
	PhaseClearing  Phase = "clearing"
	PhasePutting   Phase = "putting"
	PhaseStripping Phase = "stripping"
	PhaseConfirmed Phase = "held" // confirmed; what is left stays until retention or an operator
	PhasePurging   Phase = "purging"
	PhaseRestoring Phase = "restoring"
	PhaseConflict  Phase = "conflict" // never purged but by an operator
	// PhaseUnlisted: it lies in quarantine and the ledger does not know it, since the state
	// directory was lost or is another one. Never folded; an operator decides.
	PhaseUnlisted Phase = "unlisted"
	// PhaseCNIRemoving: no pod's entry but an archive of CNI files, named by Entry, that are
	// being removed. What a crash left of that is finished from the archive.
	PhaseCNIRemoving Phase = "sweeping"
	PhaseGone        Phase = "gone" // no longer in quarantine
)

// deed is one action: its intent, the kind of record after each result, and what ends the intent after a crash if the entry
// is in quarantine (here) or not (away). A result without a kind is a failure, and leaves the intent open: the next pass
// closes it by what is on disk.
type deed struct {
	action   ActionKind
	byPerson bool
	intent   Kind
	after    map[Result]Kind
	here     step
	away     step
}

// step is what ends an intent after a crash: a record, or an action, or neither if a look must come first.
type step struct {
	record Kind
	action ActionKind
}

var deeds = [...]deed{
	{
		Park, false, KindParking,
		map[Result]Kind{Done: KindParked, Gone: KindNotParked, Refused: KindNotParked},
		// It was moved, and the confirm time starts again; or it never left, and there is nothing to put back.
		step{record: KindParked},
		step{record: KindNotParked},
	},
	{
		Clear, false, KindClearing,
		map[Result]Kind{Done: KindCleared, Gone: KindNotCleared, Refused: KindNotCleared},
		// It was judged before the crash, perhaps before a reboot, so it is undone.
		step{action: PutBack},
		step{record: KindNotCleared},
	},
	{
		// Gone: it is neither in quarantine nor back. Partly: it cannot go back, and lies there as before.
		PutBack, false, KindPutting,
		map[Result]Kind{Done: KindPutBack, Conflict: KindPutBack, Gone: KindRemoved, Partly: KindCleared},
		step{action: PutBack},
		step{action: PutBack},
	},
	{
		PutBack, true, KindRestoring,
		map[Result]Kind{Done: KindRestored, Conflict: KindRestored, Gone: KindRemoved, Partly: KindCleared},
		step{action: PutBack},
		step{action: PutBack},
	},
	{
		Strip, false, KindStripping,
		map[Result]Kind{Done: KindRemoved, Conflict: KindRemoved, Gone: KindRemoved, Partly: KindStripped},
		step{},
		step{action: Strip},
	},
	{
		Purge, false, KindPurging,
		map[Result]Kind{Done: KindRemoved, Conflict: KindRemoved, Gone: KindRemoved, Partly: KindStripped},
		step{},
		step{action: Strip},
	},
}

// deedOf returns the row of an action. An operator's has a row of its own for PutBack only.
func deedOf(a Action) deed {
	for _, d := range deeds {
		if d.action == a.Kind && d.byPerson == (a.ByPerson && a.Kind == PutBack) {
			return d
		}
	}
	return deed{}
}

// deed returns the row of the intent that the phase is, and false where it is none.
func (p Phase) deed() (deed, bool) {
	for _, d := range deeds {
		if d.intent.means().Phase == p {
			return d, true
		}
	}
	return deed{}, false
}

// after names the record of an outcome.
func after(o Outcome) Kind {
	if k, ok := deedOf(o.Action).after[o.Result]; ok {
		return k
	}
	return KindFailed
}

// Intent reports whether the phase is an intent whose outcome is not written down.
func (p Phase) Intent() bool { _, ok := p.deed(); return ok }

// due reports whether a look can advance an entry in this phase at any time.
func (p Phase) due() bool { return p == PhaseParked || p == PhaseStripping || p == PhasePurging }

// Unfinished reports whether something was begun with the entry that has not ended yet.
func (p Phase) Unfinished() bool { return p.Intent() || p.due() }

// Over reports whether nothing is left of the entry, or never was.
func (p Phase) Over() bool { return p == PhaseNone || p == PhaseGone }

// OnlyByPerson reports whether only an operator purges what is in this phase.
func (p Phase) OnlyByPerson() bool { return p == PhaseConflict || p == PhaseUnlisted }

// InQuarantine reports whether the phase is that of something that lies in quarantine. So is one that this program does
// not have.
func (p Phase) InQuarantine() bool { return !p.Over() && p != PhaseCNIRemoving }

// Begun is the phase of an entry on which an operator's command was begun and has no outcome.
func Begun(kind ActionKind) Phase {
	return deedOf(Action{Kind: kind, ByPerson: true}).intent.means().Phase
}

// Phases lists the phases in which the ledger has something in quarantine, for metrics that
// must exist before they count.
func Phases() []Phase {
	return []Phase{
		PhaseParking, PhaseParked, PhaseClearing, PhasePutting, PhaseStripping, PhaseConfirmed, PhasePurging, PhaseRestoring, PhaseConflict,
	}
}

// Fold applies one record to the states of the entries, keyed by Entry. A record without
// an entry changes nothing.
func Fold(states map[string]*EntryState, r Record) {
	if r.Entry == "" {
		return
	}
	s := states[r.Entry]
	if s == nil {
		s = &EntryState{Entry: r.Entry, UID: r.UID}
		states[r.Entry] = s
	}
	m := r.Kind.means()
	if m.Phase != PhaseNone {
		s.Phase = m.Phase
	}
	if !m.Intent {
		s.Failed = nil
	}
	if m.Intent {
		s.By, s.Static = r.By, s.Static || r.Static // a later look may have seen its manifest
	}
	if m.fold != nil {
		m.fold(s, r)
	}
}

func begun(s *EntryState, r Record) {
	s.ID, s.Why, s.Namespace, s.PodName = r.ID, r.Why, r.Namespace, r.PodName
	s.Parked.Begun = r.At
	parked(s, r)
}

func parked(s *EntryState, r Record) { s.Parked.At, s.Parked.Kubelet = r.At, r.Kubelet }

// clearing: which directory was made in quarantine is not known before it is.
func clearing(s *EntryState, r Record) {
	begun(s, r)
	s.ID, s.Leaf = DirID{}, r.Leaf
}

func cleared(s *EntryState, r Record) {
	s.ConfirmedAt, s.Left, s.ID, s.Tried = r.At, r.Left, r.ID, r.Err != ""
}

func stripped(s *EntryState, r Record) {
	s.ConfirmedAt, s.Left, s.TakeAll = r.At, r.Left, false
	s.take(r)
}

func purging(s *EntryState, r Record) {
	s.TakeAll = r.TakeAll
	cutShort(s, r)
}

func removed(s *EntryState, r Record) {
	s.Left = nil
	s.take(r)
}

func restored(s *EntryState, _ Record) { s.Restored = true }

func forgotten(s *EntryState, _ Record) { s.Restored = false }

func conflict(s *EntryState, r Record) {
	s.Merge = r.Merge
	if s.ID == (DirID{}) {
		s.ID = r.ID
	}
	if len(s.Left) == 0 {
		s.Left = r.Left
	}
}

func failed(s *EntryState, r Record) {
	if s.Failed = r.Why; len(r.Why) == 0 {
		s.Failed = []Why{{ReasonRemoval, r.Err}}
	}
	cutShort(s, r)
}

// take adds what an action removed. Taken is set also if that was nothing.
func (s *EntryState) take(r Record) {
	if s.Taken == nil {
		s.Taken = map[string]Tally{}
	}
	for class, t := range r.Taken {
		sum := s.Taken[class]
		sum.Add(t)
		s.Taken[class] = sum
	}
	cutShort(s, r)
}

// cutShort adds what an action that has not ended has read.
func cutShort(s *EntryState, r Record) {
	for path, text := range r.VolData {
		if s.VolData == nil {
			s.VolData = map[string]string{}
		}
		s.VolData[path] = text
	}
}
