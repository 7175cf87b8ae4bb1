package policy

import "slices"

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

// Meaning is what a kind of record means.
type Meaning struct {
	Kind  Kind
	Phase Phase // where the entry stands from then on; PhaseNone: where it stood
	// ID is the MESSAGE_ID, once from random(4). Scripts and alerts rely on it: it never changes.
	ID     string
	Level  Level
	Intent bool   // not shown: its outcome is
	Became string // what became of the entry, if that is its end
	// Restores is true if quarantine restore reverts it.
	Restores bool
	// Text is the sentence to show, with names in braces for fields of the record; instead has other sentences, of which
	// the first that fits counts.
	Text    string
	instead []wording
	person  func(Record) bool // nil: no operator need act
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
	{Kind: KindUnmounting, ID: "b669d31f237b4614b9f8d55f1fff7050", Level: LevelDebug, Intent: true, Text: "About to unmount {mounts} of {pod}{why}"},
	{
		Kind: KindUnmounted, ID: "4e5cb6b6196e4d92be03d6e8c0939cd9", Level: LevelNotice,
		Text: "An operator unmounted {mounts} of {pod}, which orphan-reaper does not mount again{why}",
	},
	{
		Kind: KindNotUnmounted, ID: "42c9d434f82444088c7c67f3e361fcda", Level: LevelInfo,
		Text:    "Left what is mounted of {pod} as it was{why}",
		instead: []wording{{erred, "It is not known what an operator unmounted of {pod}{why}"}},
	},
	{
		Kind: KindConflict, Phase: PhaseConflict, ID: "5adf1591b3aa4b2d9bf0286a8e19c65a", Level: LevelWarning, person: always, fold: conflict,
		Text:    "The directory of {pod} had been made again; that one is in quarantine{entry} until it is purged{why}",
		instead: []wording{{elder, "What {pod} had before it lived again is in quarantine{entry} until it is purged{why}"}},
	},
	{
		Kind: KindFailed, ID: "d01b174376f7412fa17d708620025bd2", Level: LevelErr, person: always, fold: failed,
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

// Known reports whether this program has the kind. A newer program wrote any other.
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

// NeedsPerson reports whether an operator has to act.
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
