package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Is reports whether the directory is the one that was remembered, as far as two boots can tell:
// device numbers are given anew at each.
func (d DirID) Is(remembered DirID) bool {
	return d.Ino == remembered.Ino && d.Btime == remembered.Btime
}

// Listed returns the entries that are in quarantine, sorted.
func Listed(all map[string]*EntryState) []EntryState {
	var in []EntryState
	for _, e := range all {
		if e.Phase.InQuarantine() {
			in = append(in, *e)
		}
	}
	slices.SortFunc(in, func(a, b EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
	return in
}

// IsElder says whether an entry in conflict is what the pod had before, and not what its
// kubelet made anew: that one has a name of its own kind.
func (s EntryState) IsElder() bool { return !strings.Contains(s.Entry, ConflictSuffix) }

// ConflictSuffix ends the quarantine name of a directory that was made again and was not
// used, so that it could change places with its elder.
const ConflictSuffix = ".conflict"

// Frozen is the record of an entry that stays in quarantine since its pod lives again: from
// then on nothing but a person removes it.
func Frozen(e Evidence, s EntryState, v ParkedVerdict, n Node, now Instant) Record {
	r := Record{
		Kind: KindConflict, At: now, UID: s.UID, Namespace: s.Namespace, PodName: s.PodName, Entry: s.Entry, ID: s.ID, Leaf: s.Leaf,
		Kubelet: n.KubeletID, Why: v.Why, Left: s.Left,
	}
	if r.PodName == "" {
		r.Namespace, r.PodName = e.Namespace, e.PodName
	}
	if len(r.Left) == 0 {
		r.Left = e.Residue
	}
	elder, pods := e.Facts[FactDirectory].Origin, e.Facts[FactRemade]
	switch {
	case pods.Truth != Yes:
		r.Undo = Undo(Action{UID: s.UID})
	case elder != "" && pods.Origin != "":
		r.Merge = Merge(elder, pods.Origin+"/"+string(s.UID), s.UID, r.Left)
	}
	return r
}

// mostMerges bounds the commands of one record.
const mostMerges = 8

// Merge returns the commands with which a person brings what lies in quarantine, at elder,
// into the directory live that the pod has now: look at both, copy what may be missing and
// replace nothing, and remove the rest.
func Merge(elder, live string, uid parsers.PodUID, left []Residue) []string {
	cmds := []string{"diff -rq " + quote(elder) + " " + quote(live)}
	for _, l := range left {
		if l.Class != contents.ClassData && l.Class != contents.ClassEphemeral || strings.ContainsAny(l.Path, `"`) {
			continue // what the kubelet makes anew, or a name that a shell would need help with
		}
		if len(cmds) > mostMerges {
			cmds = append(cmds, "and so on")
			break
		}
		cmds = append(cmds, "cp -anT "+quote(elder+"/"+l.Path)+" "+quote(live+"/"+l.Path))
	}
	return append(cmds, "orphan-reaper quarantine purge --force "+string(uid))
}

// quote makes one word of a shell's, where it is not one already.
func quote(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-~:@+=,", c)
	}
	if strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
