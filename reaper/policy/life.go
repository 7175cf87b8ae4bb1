package policy

import "slices"

// The life of what lies in quarantine stands in three tables: what each action begins with and
// what follows each of its results, what each kind of record means, and where each phase leads
// after a crash. A new kind of record is a constant and a row here. A new action is also a case in
// Memory.Ended, in Action's methods, in reaper/removal and in the views.

// Kind returns what a record reports. Each kind has a MESSAGE_ID of its own in the journal.
type Kind string

// The kinds of records. Those that end in "ing" are intents: they are written to the
// ledger before the disk changes, and are not shown to people.
const (
	KindKept            Kind = "kept"             // a verdict, when its reasons changed
	KindParking         Kind = "parking"          // intent
	KindParked          Kind = "parked"           // moved to quarantine
	KindNotParked       Kind = "not-parked"       // refused, or the kubelet was faster
	KindPutting         Kind = "putting"          // intent: back to the pods directory
	KindPutBack         Kind = "put-back"         // back in the pods directory
	KindClearing        Kind = "clearing"         // intent
	KindCleared         Kind = "cleared"          // what lay in one leaf is in quarantine, and stays there
	KindNotCleared      Kind = "not-cleared"      // refused, or there was nothing in it
	KindStripping       Kind = "stripping"        // intent
	KindStripped        Kind = "stripped"         // what holds no data is gone, the rest stays in quarantine
	KindRemoved         Kind = "removed"          // nothing is left of it
	KindPurging         Kind = "purging"          // intent
	KindRestoring       Kind = "restoring"        // intent, by an operator
	KindRestored        Kind = "restored"         // by an operator
	KindForgotten       Kind = "forgotten"        // by an operator: that the pod was restored
	KindRemovingSandbox Kind = "removing-sandbox" // intent; an earlier version wrote it, and the next two
	KindRemovedSandbox  Kind = "removed-sandbox"  // by the runtime, on our word
	KindKeptSandbox     Kind = "kept-sandbox"     // it is gone, or no longer what the look has seen
	KindConflict        Kind = "conflict"         // of two directories of one pod, one stays in quarantine
	KindFailed          Kind = "failed"           // an action that an operator should look at
	KindBreaker         Kind = "breaker"          // enforcing stopped
	KindResumed         Kind = "resumed"          // an operator let it go on
	KindCNIRemoving     Kind = "sweeping"         // intent: files of CNI, archived
	KindCNIRemoved      Kind = "swept"            // files of CNI, one batch
	KindCNIRestored     Kind = "unswept"          // files of CNI put back by an operator
	KindQuiet           Kind = "quiet"            // the kubelet's message about a pod, or several, has stopped
	KindStillNamed      Kind = "still-named"      // it has not, although the directory is gone
	KindStarted         Kind = "started"          // the daemon
	KindStopped         Kind = "stopped"          // the daemon
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
	// being taken. What a crash left of that is finished from the archive.
	PhaseCNIRemoving Phase = "sweeping"
	PhaseGone        Phase = "gone" // no longer in quarantine
)

// Level is a priority of syslog(3), as the journal has it.
type Level int

// The levels that records have.
const (
	LevelCrit    Level = 2
	LevelErr     Level = 3
	LevelWarning Level = 4
	LevelNotice  Level = 5
	LevelInfo    Level = 6
	LevelDebug   Level = 7
)

// deed is one action: the intent that is written down before it, and the kind of record that
// follows each result. A result without a kind is a failure, and leaves the intent open: the
// next pass closes it by what is on disk.
type deed struct {
	action   ActionKind
	byPerson bool
	intent   Kind
	ends     map[Result]Kind
}

var deeds = [...]deed{
	{Park, false, KindParking, map[Result]Kind{Done: KindParked, Gone: KindNotParked, Refused: KindNotParked}},
	{Clear, false, KindClearing, map[Result]Kind{Done: KindCleared, Gone: KindNotCleared, Refused: KindNotCleared}},
	// Gone: it is neither in quarantine nor back. Partly: it cannot go back, and lies there as before.
	{PutBack, false, KindPutting, map[Result]Kind{Done: KindPutBack, Conflict: KindPutBack, Gone: KindRemoved, Partly: KindCleared}},
	{PutBack, true, KindRestoring, map[Result]Kind{Done: KindRestored, Conflict: KindRestored, Gone: KindRemoved, Partly: KindCleared}},
	{Strip, false, KindStripping, map[Result]Kind{Done: KindRemoved, Conflict: KindRemoved, Gone: KindRemoved, Partly: KindStripped}},
	{Purge, false, KindPurging, map[Result]Kind{Done: KindRemoved, Conflict: KindRemoved, Gone: KindRemoved, Partly: KindStripped}},
}

// deedOf returns the row of an action. That an operator asked for it changes the words of putting
// back alone.
func deedOf(a Action) deed {
	for _, d := range deeds {
		if d.action == a.Kind && d.byPerson == (a.ByPerson && a.Kind == PutBack) {
			return d
		}
	}
	return deed{}
}

// after names the record of an outcome.
func after(o Outcome) Kind {
	if k, ok := deedOf(o.Action).ends[o.Result]; ok {
		return k
	}
	return KindFailed
}

// step is what ends an intent after a crash: a record that says how it ended, or the action
// that ends it, or neither, where a look must come first.
type step struct {
	record Kind
	action ActionKind
}

// stage is one phase. here and away are the steps of an intent whose entry is found in
// quarantine, or is not.
type stage struct {
	phase  Phase
	lies   bool // it is the phase of something that lies in quarantine
	intent bool // its outcome is not written down
	due    bool // a look can take it further, whatever the time
	person bool // only an operator purges it
	here   step
	away   step
}

var stages = [...]stage{
	// phase, lies in quarantine, intent, due, only an operator purges it, what ends it if it is there, and if not
	// It was moved, and the confirm time begins anew; or it never left, and there is nothing to put back.
	{PhaseParking, true, true, false, false, step{record: KindParked}, step{record: KindNotParked}},
	{PhaseParked, true, false, true, false, step{}, step{}},
	// It was judged before the crash, perhaps before a reboot, so it is undone.
	{PhaseClearing, true, true, false, false, step{action: PutBack}, step{record: KindNotCleared}},
	{PhasePutting, true, true, false, false, step{action: PutBack}, step{action: PutBack}},
	{PhaseStripping, true, true, true, false, step{}, step{action: Strip}},
	{PhaseConfirmed, true, false, false, false, step{}, step{}},
	{PhasePurging, true, true, true, false, step{}, step{action: Strip}},
	{PhaseRestoring, true, true, false, false, step{action: PutBack}, step{action: PutBack}},
	{PhaseConflict, true, false, false, true, step{}, step{}},
	{PhaseUnlisted, true, false, false, true, step{}, step{}},
	{PhaseNone, false, false, false, false, step{}, step{}},
	{PhaseCNIRemoving, false, false, false, false, step{}, step{}},
	{PhaseGone, false, false, false, false, step{}, step{}},
}

// stageOf returns the row of a phase. What is of no phase that this program has lies in
// quarantine, and stays.
func stageOf(p Phase) stage {
	for _, s := range stages {
		if s.phase == p {
			return s
		}
	}
	return stage{phase: p, lies: true}
}

// Intent reports whether the phase is an intent whose outcome is not written down.
func (p Phase) Intent() bool { return stageOf(p).intent }

// Over reports whether nothing is left of the entry, or never was.
func (p Phase) Over() bool { return p == PhaseNone || p == PhaseGone }

// OnlyByPerson reports whether only an operator purges what is in this phase.
func (p Phase) OnlyByPerson() bool { return stageOf(p).person }

// Begun is the phase of an entry on which an operator's command was begun, with no outcome in the
// ledger.
func Begun(kind ActionKind) Phase {
	return deedOf(Action{Kind: kind, ByPerson: true}).intent.means().Phase
}

// InQuarantine reports whether the phase is that of something that lies in quarantine.
func (p Phase) InQuarantine() bool { return stageOf(p).lies }

// Phases lists the phases in which the ledger has something in quarantine, for metrics that
// must exist before they count.
func Phases() []Phase {
	var all []Phase
	for _, s := range stages {
		if s.lies && s.phase != PhaseUnlisted {
			all = append(all, s.phase)
		}
	}
	return all
}

// Meaning is what a kind of record means.
type Meaning struct {
	Kind  Kind
	Phase Phase // where the entry stands from then on; PhaseNone: where it stood
	// ID is the MESSAGE_ID: fixed for ever, random(4) once. Scripts and alerts rely on it: it is
	// never changed and never given to another kind.
	ID     string
	Level  Level
	Intent bool   // people are shown what follows, and not this
	Became string // what has become of the entry, in words, where that is the end of it
	// Restores is true where quarantine restore takes it back.
	Restores bool
	// Text is the sentence for people, with names in braces for what the record reports; instead
	// has what is said where that is not it, the first that fits.
	Text    string
	instead []wording
	person  func(Record) bool // nil: no person need act
	fold    func(*EntryState, Record)
}

type wording struct {
	when func(Record) bool
	text string
}

const intended = "About to act ({kind}) on {pod}{why}"

var meanings = [...]Meaning{
	{
		Kind: KindKept, ID: "601e98e0d10844e88c0cebcc4cfa852a", Level: LevelInfo, person: outlookAsks,
		Text: "Keeping {pod}{why}", instead: []wording{{waits, "Waiting with {pod}{why}"}},
	},
	{
		Kind: KindParking, Phase: PhaseParking, ID: "2b73170186e54758b4c92a3ebaccd4b0", Level: LevelDebug, Intent: true, Restores: true, fold: begun,
		Text: intended,
	},
	{
		Kind: KindParked, Phase: PhaseParked, ID: "770d890e15114caab7fc14a24a19f47f", Level: LevelNotice, Restores: true, fold: parked,
		Text: "Moved {pod} to quarantine{why}",
	},
	{
		Kind: KindNotParked, Phase: PhaseGone, ID: "f2e8fdcfa44a4d4e85897a89298e216d", Level: LevelInfo,
		Text: "Left the directory of {pod} where it was{why}",
	},
	{
		Kind: KindClearing, Phase: PhaseClearing, ID: "bf9d0dbc77084d379182f0670abb758d", Level: LevelDebug, Intent: true, Restores: true, fold: clearing,
		Text: intended,
	},
	{
		Kind: KindCleared, Phase: PhaseConfirmed, ID: "d474dce72fa34143898f2fdd57ad5ba9", Level: LevelNotice, Restores: true, person: always, fold: cleared,
		Text:    "Moved what lay in {leaf} of {pod} to quarantine, so that the kubelet can remove the directory{why}",
		instead: []wording{{erred, "What lay in {leaf} of {pod} stays in quarantine, since it cannot be put back{why}"}},
	},
	{
		Kind: KindNotCleared, Phase: PhaseGone, ID: "6d44f1df4e8644c7aca97fdbf0cac10e", Level: LevelInfo,
		Text: "Left what lies in {leaf} of {pod} where it was{why}",
	},
	{Kind: KindPutting, Phase: PhasePutting, ID: "28eb60529b854d4b8c236c79e2360fa5", Level: LevelDebug, Intent: true, Text: intended},
	{
		Kind: KindPutBack, Phase: PhaseGone, Became: "put back", ID: "0e1d4734eda74789a8503625d5561bd6", Level: LevelWarning,
		Text:    "Put the directory of {pod} back where it was{why}",
		instead: []wording{{ofLeaf, "Put what lay in {leaf} of {pod} back where it was{why}"}},
	},
	{Kind: KindStripping, Phase: PhaseStripping, ID: "4321d21ee607460cae948a99e8aa91c9", Level: LevelDebug, Intent: true, Text: intended, fold: cutShort},
	{
		Kind: KindStripped, Phase: PhaseConfirmed, ID: "0a5ad9a2a09f4dafb4eb407793f6fb3e", Level: LevelNotice, Restores: true, person: leftAsks, fold: stripped,
		Text: "Removed {taken} of {pod}; {left} in quarantine{why}",
	},
	{
		Kind: KindRemoved, Phase: PhaseGone, Became: "removed", ID: "4ea9a81c415a40cb96e0a1a629658fc7", Level: LevelNotice, fold: removed,
		Text: "Removed {taken} of {pod}; nothing of its directory is left{why}",
		instead: []wording{
			{ofLeaf, "Removed {taken} of {pod}, all that was in quarantine of {leaf}{why}"},
			{nothing, "Nothing is left of the directory of {pod}{why}"},
		},
	},
	{Kind: KindPurging, Phase: PhasePurging, ID: "87718e5621ea48d583565c073873595f", Level: LevelDebug, Intent: true, Text: intended, fold: purging},
	{Kind: KindRestoring, Phase: PhaseRestoring, ID: "e8dc765c80a14f6ea39afe9cf8de3bcf", Level: LevelDebug, Intent: true, Text: intended},
	{
		Kind: KindRestored, Phase: PhaseGone, Became: "put back", ID: "97baaf3502444123ad3d99811c20585f", Level: LevelNotice, fold: restored,
		Text:    "An operator put {pod} back; it is kept from now on{why}",
		instead: []wording{{ofLeaf, "An operator put what lay in {leaf} of {pod} back; the pod is kept from now on{why}"}},
	},
	{
		Kind: KindForgotten, ID: "cfde9f471bac4d4abd87309e94a9b2ee", Level: LevelNotice, fold: forgotten,
		Text: "{pod} is no longer kept by an operator; it is judged again from now on{why}",
	},
	{Kind: KindRemovingSandbox, ID: "c2bb86f841cf4068949d77daff7921fe", Level: LevelDebug, Intent: true, Text: intended},
	{
		Kind: KindRemovedSandbox, ID: "d56b6525215043d99528cf3579ff59e2", Level: LevelNotice,
		Text: "Had the runtime remove the stopped sandbox{sandbox} of {pod}, which only the runtime knew{why}",
	},
	{
		Kind: KindKeptSandbox, ID: "0da97e40c1b644a89000afc8dbbd1a34", Level: LevelInfo,
		Text: "Left the sandbox{sandbox} of {pod}: it is gone, or no longer as it was seen{why}",
	},
	{
		Kind: KindConflict, Phase: PhaseConflict, ID: "5adf1591b3aa4b2d9bf0286a8e19c65a", Level: LevelWarning, person: always, fold: conflict,
		Text:    "The directory of {pod} had been made again; that one is in quarantine{entry} until it is purged{why}",
		instead: []wording{{elder, "What {pod} had before it lived again is in quarantine{entry} until it is purged{why}"}},
	},
	{
		Kind: KindFailed, ID: "d01b174376f7412fa17d708620025bd2", Level: LevelErr, person: always, fold: cutShort,
		Text: "Could not finish with {pod}; inspect it{why}",
	},
	{
		Kind: KindBreaker, ID: "c674b2a547d745ec98a20ddb52b25c8c", Level: LevelCrit, person: always,
		Text: "Stopped removing anything, since {pod} turned out to be alive{why}. Find out why, then run orphan-reaper quarantine resume",
	},
	{
		Kind: KindResumed, ID: "5d521615b1fc48f98c222a7f9857f41d", Level: LevelNotice,
		Text: "An operator resumed removals{why}",
	},
	{
		Kind: KindCNIRemoving, Phase: PhaseCNIRemoving, ID: "6fc7115fb6204f41a68f67d60cb1e25e", Level: LevelDebug, Intent: true,
		Text: "About to remove {files} that CNI left{pods}",
	},
	{
		Kind: KindCNIRemoved, Phase: PhaseGone, ID: "399afd57e3964f64bd6994d2cdd6040b", Level: LevelNotice,
		Text:    "Removed {files} that CNI left{pods}{repaired}; their content is in the archive {archive}{why}",
		instead: []wording{{nothing, "Removed no file that CNI left{why}"}},
	},
	{
		Kind: KindCNIRestored, ID: "034afacab35b4acc8211dc329f9b6d31", Level: LevelNotice,
		Text: "An operator put back {files} that CNI had left, from {archive}{why}",
	},
	{
		Kind: KindQuiet, ID: "cfe0f290fffa4657b53d5c9b480329e7", Level: LevelNotice,
		Text:    "The kubelet's message about {pod} stopped at {stopped}, after {lines}",
		instead: []wording{{several, "The kubelet's messages about {count} stopped, the last at {stopped}, after {lines}"}},
	},
	{
		Kind: KindStillNamed, ID: "dc9284c8a08243b4b2c669227b963791", Level: LevelWarning, person: always,
		Text: "The kubelet still names {pod}, whose directory is gone since {gone}: its last line was written at {stopped}",
	},
	{Kind: KindStarted, ID: "31ef80b5113940adaecfb7a43fd035cc", Level: LevelInfo, Text: "orphan-reaper has started{why}"},
	{Kind: KindStopped, ID: "55e9f916081a43809984fd3c31b35ee1", Level: LevelInfo, Text: "orphan-reaper has stopped{why}"},
}

// Kinds lists what all kinds mean.
func Kinds() []Meaning { return meanings[:] }

// Means returns what the kind means. One that the table lacks is shown all the same, without
// an ID.
func (k Kind) Means() Meaning { return *k.means() }

func (k Kind) means() *Meaning {
	for i := range meanings {
		if meanings[i].Kind == k {
			return &meanings[i]
		}
	}
	return &Meaning{Kind: k, Level: LevelNotice, Text: "{kind}: {pod}{why}"}
}

// Known reports whether this program has the kind. A ledger with another one tells of
// something that it would misread: what a newer program did.
func (k Kind) Known() bool { return k.means().ID != "" }

// Sentence is what the record reports, with names in braces for its fields.
func (r *Record) Sentence() string {
	m := r.Kind.means()
	for _, s := range m.instead {
		if s.when(*r) {
			return s.text
		}
	}
	return m.Text
}

// NeedsPerson reports whether what r tells stays as it is until an operator acts.
func (r Record) NeedsPerson() bool {
	asks := r.Kind.means().person
	return asks != nil && asks(r)
}

func always(Record) bool        { return true }
func outlookAsks(r Record) bool { return OutlookOf(r.Decision, r.Why) == OutlookPerson }
func leftAsks(r Record) bool    { return slices.ContainsFunc(r.Left, Residue.NeedsPerson) }
func waits(r Record) bool       { return r.Decision == Wait }
func erred(r Record) bool       { return r.Err != "" }
func ofLeaf(r Record) bool      { return r.Leaf != "" }
func nothing(r Record) bool     { return len(r.Taken) == 0 }
func several(r Record) bool     { return r.PodCount > 1 }
func elder(r Record) bool       { return EntryState{Entry: r.Entry}.IsElder() }

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

func cleared(s *EntryState, r Record) { s.ConfirmedAt, s.Left, s.ID = r.At, r.Left, r.ID }

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

// take takes in what ended an action. That Taken is there says so, even where nothing was removed.
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

// cutShort takes in what an action that has not ended yet has read and removed.
func cutShort(s *EntryState, r Record) {
	for path, text := range r.VolData {
		if s.VolData == nil {
			s.VolData = map[string]string{}
		}
		s.VolData[path] = text
	}
}
