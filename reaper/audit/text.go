package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxText bounds the line for people. journalctl -o json shows no MESSAGE over 4,096
// bytes without --all; the whole stands in the fields and in the ledger.
const maxText = 2000

// Text returns the one line that tells people of r: who, what, why, and how to undo it.
// It is r.Text where that is set.
func Text(r policy.Record) string {
	s := r.Text
	if s == "" {
		s = compose(r)
	}
	return cut(clean(s), maxText)
}

// What is Text without how to undo it, for what happened long ago.
func What(r policy.Record) string {
	return cut(clean(cmp.Or(r.Text, sentence(r, pod(r), because(r)))), maxText)
}

func compose(r policy.Record) string {
	s := sentence(r, pod(r), because(r))
	if undo := Undo(r); undo != "" {
		s += ". Undo: " + undo
	}
	if len(r.Merge) > 0 {
		s += ". To merge the two: " + strings.Join(r.Merge, "; ")
	}
	return s
}

// sentence says what r tells of the pod who; why begins with a colon, or is empty.
func sentence(r policy.Record, who, why string) string {
	switch r.Kind {
	case policy.KindKept:
		if r.Decision == policy.Wait {
			return "Waiting with " + who + why
		}
		return "Keeping " + who + why
	case policy.KindParking, policy.KindClearing, policy.KindPutting, policy.KindStripping, policy.KindPurging, policy.KindRestoring,
		policy.KindRemovingSandbox:
		return fmt.Sprintf("About to act (%s) on %s%s", r.Kind, who, why)
	case policy.KindParked:
		return "Moved the directory of " + who + " to quarantine, since nothing on this node shows that the pod lives" +
			why + "; it goes back by itself at a sign of life"
	case policy.KindNotParked:
		return "Left the directory of " + who + " where it was" + why
	case policy.KindCleared:
		if r.Err != "" {
			return "What lay in " + leaf(r) + " of " + who + " stays in quarantine, since it cannot go back" + why
		}
		return "Moved what lay in " + leaf(r) + " of " + who + " to quarantine, so that the kubelet can remove the directory" + why
	case policy.KindNotCleared:
		return "Left what lies in " + leaf(r) + " of " + who + " where it was" + why
	case policy.KindPutBack:
		if r.Leaf != "" {
			return "Put what lay in " + r.Leaf + " of " + who + " back where it was" + why
		}
		return "Put the directory of " + who + " back where it was" + why
	case policy.KindStripped:
		return "Removed " + taken(r.Taken) + " of " + who + "; " + left(r.Left) + " in quarantine" + why
	case policy.KindRemoved:
		if r.Leaf != "" {
			return "Removed " + taken(r.Taken) + " of " + who + ", all that was in quarantine of " + r.Leaf + why
		}
		if len(r.Taken) == 0 {
			return "Nothing is left of the directory of " + who + why
		}
		return "Removed " + taken(r.Taken) + " of " + who + "; nothing of its directory is left" + why
	case policy.KindRestored:
		if r.Leaf != "" {
			return "A person put what lay in " + r.Leaf + " of " + who + " back; the pod is kept from now on" + why
		}
		return "A person put the directory of " + who + " back; it is kept from now on" + why
	case policy.KindRemovedSandbox:
		return "Had the runtime remove the stopped sandbox" + sandbox(r) + " of " + who + ", since nobody else knows the pod any more" + why
	case policy.KindKeptSandbox:
		return "Left the sandbox" + sandbox(r) + " of " + who + ": it is gone, or no longer as it was seen" + why
	case policy.KindConflict:
		if elder := (policy.EntryState{Entry: r.Entry}); elder.IsElder() {
			return "What " + who + " had before it lived again is in quarantine" + entry(r) + ", and only a person removes it" + why
		}
		return "The directory of " + who + " had been made again; that one is in quarantine" + entry(r) + ", and only a person removes it" + why
	case policy.KindFailed:
		return "Could not finish with " + who + ", a person should look" + why
	case policy.KindBreaker:
		return "Stopped removing anything, since " + who + " turned out to live" + why +
			". Find out why; then let it go on: orphan-reaper quarantine resume"
	case policy.KindResumed:
		return "A person let orphan-reaper go on removing" + why
	case policy.KindSweeping:
		return "About to remove " + files(r.Taken) + " that CNI left" + pods(r)
	case policy.KindSwept:
		if len(r.Taken) == 0 {
			return "Removed no file that CNI left" + why
		}
		return "Removed " + files(r.Taken) + " that CNI left" + pods(r) + repaired(r) + "; their content is in the archive " + r.Archive + why
	case policy.KindUnswept:
		return "A person put back " + files(r.Taken) + " that CNI had left, from " + r.Archive + why
	case policy.KindStarted:
		return "orphan-reaper has started" + why
	case policy.KindStopped:
		return "orphan-reaper has stopped" + why
	}
	return fmt.Sprintf("%s: %s%s", r.Kind, who, why)
}

// Undo returns the command that takes back what r tells, "" where nothing needs to or can.
func Undo(r policy.Record) string {
	if r.Undo != "" {
		return r.Undo
	}
	switch r.Kind {
	case policy.KindParked, policy.KindCleared, policy.KindStripped:
		if r.UID != "" {
			return "orphan-reaper quarantine restore " + string(r.UID)
		}
	case policy.KindKept, policy.KindParking, policy.KindPutting, policy.KindPutBack, policy.KindNotParked,
		policy.KindClearing, policy.KindNotCleared,
		policy.KindStripping, policy.KindRemoved, policy.KindPurging, policy.KindRestoring, policy.KindRestored,
		policy.KindConflict, policy.KindFailed, policy.KindBreaker, policy.KindResumed, policy.KindStarted,
		policy.KindStopped, policy.KindRemovingSandbox, policy.KindRemovedSandbox, policy.KindKeptSandbox,
		policy.KindSweeping, policy.KindSwept, policy.KindUnswept:
	}
	return ""
}

// pod names the pod as far as it is known.
func pod(r policy.Record) string {
	switch {
	case r.UID == "" && r.PodName == "":
		return "a pod"
	case r.PodName == "":
		return fmt.Sprintf("pod %s", r.UID)
	case r.UID == "":
		return "pod " + r.FullName()
	}
	return fmt.Sprintf("pod %s (%s)", r.FullName(), r.UID)
}

// leaf names the directory whose content the record is about.
func leaf(r policy.Record) string { return cmp.Or(r.Leaf, "a volume's directory") }

func entry(r policy.Record) string {
	if r.Entry == "" {
		return ""
	}
	return " as " + r.Entry
}

func sandbox(r policy.Record) string {
	if r.Sandbox == "" {
		return ""
	}
	return " " + r.Sandbox
}

// because gives the reasons with their words and the error behind a colon, "" where there
// are none.
func because(r policy.Record) string {
	parts := make([]string, 0, len(r.Why)+1)
	for _, w := range r.Why {
		part := string(w.Reason)
		if w.Detail != "" {
			part += " (" + w.Detail + ")"
		}
		parts = append(parts, part)
	}
	said := func(w policy.Why) bool { return w.Detail == r.Err }
	if r.Err != "" && !slices.ContainsFunc(r.Why, said) {
		parts = append(parts, r.Err)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func taken(t map[string]policy.Tally) string {
	var sum policy.Tally
	for _, tally := range t {
		sum.Add(tally)
	}
	if sum.Entries == 0 {
		return "nothing"
	}
	classes := slices.Sorted(maps.Keys(t))
	return fmt.Sprintf("%s, %s (%s)", count(sum.Entries, "entry", "entries"), size(sum.Bytes), strings.Join(classes, ", "))
}

// files tells of files that CNI wrote, by kind.
func files(t map[string]policy.Tally) string {
	var parts []string
	var sum policy.Tally
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		sum.Add(t[kind])
		parts = append(parts, fmt.Sprintf("%d %s", t[kind].Entries, kind))
	}
	if sum.Entries == 0 {
		return "no file"
	}
	return fmt.Sprintf("%s, %s (%s)", count(sum.Entries, "file", "files"), size(sum.Bytes), strings.Join(parts, ", "))
}

// pods names the pods of CNI files, as far as the record does.
func pods(r policy.Record) string {
	if len(r.Pods) == 0 {
		return ""
	}
	const most = 3 // a sweep may be a hundred such lines; the record's own field has more of them
	if len(r.Pods) > most {
		return " of " + strings.Join(r.Pods[:most], ", ") + " and others"
	}
	return " of " + strings.Join(r.Pods, ", ")
}

// repaired tells of empty and unreadable cache files, and of the runtime that stumbles over
// them: whether it does depends on its version (containerd#8197, cni#1055).
func repaired(r policy.Record) string {
	if r.Repaired == 0 {
		return ""
	}
	text := fmt.Sprintf("; %d of them empty or unreadable, which makes some runtimes fail to tear a sandbox down", r.Repaired)
	if len(r.Runtimes) > 0 {
		text += " (here: " + strings.Join(r.Runtimes, ", ") + ")"
	}
	return text
}

func left(rs []policy.Residue) string {
	var sum policy.Tally
	more, classes := "", map[string]bool{}
	for _, r := range rs {
		sum.Add(policy.Tally{Entries: r.Entries, Bytes: r.Bytes})
		classes[r.Class.String()] = true
		if r.Partial {
			more = "at least "
		}
	}
	if sum.Entries == 0 {
		return "the rest stays"
	}
	verb := "stay"
	if sum.Entries == 1 {
		verb = "stays"
	}
	return fmt.Sprintf("%s%s, %s (%s) %s", more, count(sum.Entries, "entry", "entries"), size(sum.Bytes),
		strings.Join(slices.Sorted(maps.Keys(classes)), ", "), verb)
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size writes bytes as a person reads them, in binary units as du does.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), -1
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
}

// clean makes s one line that a terminal shows as it is: what is not printable is quoted
// as in Go, and bytes that are no UTF-8 are replaced. It also quotes the marks that turn
// the direction of writing, which are not printable either.
func clean(s string) string {
	ok := true
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		b.WriteString(strings.Trim(fmt.Sprintf("%+q", c), "'"))
	}
	return b.String()
}

// cut shortens s to at most n bytes, at a rune's end, with an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
