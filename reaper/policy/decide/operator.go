package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// Unlisted returns the entries among names, which are in quarantine, that the ledger does not have: the state directory was
// lost, or is another one. Only an operator does something about them.
func Unlisted(names []string, known map[string]*policy.EntryState) []policy.EntryState {
	var entries []policy.EntryState
	for _, name := range names {
		if e := known[name]; e != nil && e.Phase != policy.PhaseGone {
			continue
		}
		first, rest, _ := strings.Cut(name, ".")
		uid, ok := parsers.ParsePodUID(first)
		if !ok || rest == "" {
			continue // not ours
		}
		e := policy.EntryState{Entry: name, UID: uid, Phase: policy.PhaseUnlisted}
		if strings.Contains(rest, "conflict") {
			e.Phase = policy.PhaseConflict
		}
		entries = append(entries, e)
	}
	return entries
}

// Meant returns those of a pod's entries that an operator means: to restore, the youngest that is no conflict, the ledger's
// before others, or else the elder of one; to purge, all.
func Meant(of []policy.EntryState, kind policy.ActionKind) []policy.EntryState {
	if kind == policy.Purge {
		return of
	}
	for _, e := range slices.Backward(of) {
		if e.Phase != policy.PhaseConflict {
			return []policy.EntryState{e}
		}
	}
	for _, e := range slices.Backward(of) {
		if e.IsElder() {
			return []policy.EntryState{e}
		}
	}
	return nil
}

// Changed returns how what is meant now differs from what the operator agreed to, "" if it does not: each entry has to be
// among those shown, as the same directory, and still confirmed dead if it was shown so. Fewer entries are no change.
func Changed(meant, shown []policy.EntryState) string {
	for _, e := range meant {
		i := slices.IndexFunc(shown, func(s policy.EntryState) bool { return s.Entry == e.Entry })
		switch {
		case i < 0:
			return e.Entry + " has come since"
		case !e.ID.Is(shown[i].ID):
			return e.Entry + " is another directory by now"
		case shown[i].Phase == policy.PhaseConfirmed && e.Phase != policy.PhaseConfirmed:
			return fmt.Sprintf("%s is no longer confirmed dead (%s)", e.Entry, e.Phase)
		}
	}
	return ""
}

// PlanCommand plans what an operator asked for. rests is what a look saw of the entries, by their names.
func PlanCommand(meant []policy.EntryState, rests map[string]policy.Evidence, kind policy.ActionKind) []policy.Action {
	actions := make([]policy.Action, 0, len(meant))
	for _, s := range meant {
		a := s.Action(kind)
		a.ByPerson, a.Evidence.Residue = true, s.Left
		if kind == policy.Purge {
			a.Take = contents.TakeAll
		}
		a.Evidence.Facts = rests[s.Entry].Facts
		// Of what was made again the ledger does not have the identity. It keeps the elder's name if its own was refused.
		if s.Phase == policy.PhaseConflict && !s.IsElder() || s.Phase == policy.PhasePutting && kind == policy.Purge {
			a.ID = policy.DirID{}
		}
		actions = append(actions, a)
	}
	return actions
}

// Forgotten are the records by which an operator revokes that pods were restored: one for each entry that was.
func Forgotten(entries map[string]*policy.EntryState, uids []parsers.PodUID, now policy.Instant) []policy.Record {
	var records []policy.Record
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[name]; e.Restored && slices.Contains(uids, e.UID) {
			records = append(records, policy.Record{
				Kind: policy.KindForgotten, At: now, UID: e.UID, Namespace: e.Namespace, PodName: e.PodName, Entry: e.Entry,
			})
		}
	}
	return records
}

// LiveAgain returns by what each pod lives again of which a look saw entries.
func LiveAgain(log *reported.Log, look policy.Look, entries []policy.EntryState, r policy.Rules) map[parsers.PodUID]string {
	states, signs := map[string]*policy.EntryState{}, map[parsers.PodUID]string{}
	for i := range entries {
		states[entries[i].Entry] = &entries[i]
	}
	for _, e := range look.Resting {
		state := states[e.Entry]
		if state == nil || signs[e.UID] != "" {
			continue
		}
		completeEntry(&e, log, &look, state)
		if v := policy.Lives(e, look.Node, *state, r, look.At); v.Decision == policy.Keep {
			signs[e.UID] = policy.WhyWords(v.Why)
		}
	}
	return signs
}
