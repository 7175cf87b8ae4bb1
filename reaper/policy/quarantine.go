package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Is reports whether the directory is the remembered one. Device numbers change with each boot.
func (d DirID) Is(remembered DirID) bool {
	return d.Ino == remembered.Ino && d.Btime == remembered.Btime
}

// Listed returns the entries that are in quarantine, sorted.
func Listed(all map[string]*EntryState) []EntryState {
	in := make([]EntryState, 0, len(all))
	for _, e := range all {
		if e.Phase.InQuarantine() {
			in = append(in, *e)
		}
	}
	slices.SortFunc(in, func(a, b EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
	return in
}

// IsElder reports whether an entry in conflict is what the pod had before, and not what its kubelet made again.
func (s EntryState) IsElder() bool { return !strings.Contains(s.Entry, ConflictSuffix) }

// ConflictSuffix ends the quarantine name of a directory that was made again and was not
// used, so that it could change places with its elder.
const ConflictSuffix = ".conflict"

// Frozen is the record of an entry that stays in quarantine until an operator removes it, since its pod lives again.
func Frozen(e Evidence, s EntryState, v Verdict, n Node, now Instant) Record {
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
		r.Undo = Undo(s.UID)
	case elder != "" && pods.Origin != "":
		r.Merge = Merge(elder, pods.Origin+"/"+string(s.UID), s.UID, r.Left)
	}
	return r
}

// mergeCopy is no command: as root it would copy to wherever a living container leads it.
const mergeCopy = "# stop the pod, and only then copy what is missing: its containers can put a link in the way of a copy"

// Merge returns the commands with which an operator merges elder, in quarantine, into the directory live that the pod has
// now: compare, copy what may be missing while the pod is stopped, and remove the rest.
func Merge(elder, live string, uid parsers.PodUID, left []Residue) []string {
	cmds := []string{"diff -rq " + clean.Shell(elder) + " " + clean.Shell(live)}
	kept := func(l Residue) bool { return l.Class == contents.ClassData || l.Class == contents.ClassEphemeral }
	if slices.ContainsFunc(left, kept) { // what the kubelet makes again is not copied
		cmds = append(cmds, mergeCopy)
	}
	return append(cmds, "orphan-reaper quarantine purge --force "+string(uid))
}
