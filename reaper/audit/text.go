package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxText limits the text of a record. journalctl -o json shows no MESSAGE over 4,096 bytes without --all. The fields
// and the ledger have everything.
const maxText = 2000

// Text returns r.Text if it is set, or a line that describes r: what happened and why, who requested it, and how to undo
// it.
func Text(r policy.Record) string {
	s := r.Text
	if s == "" {
		s = compose(r, nil)
	}
	return clean.Cut(clean.Text(s), maxText)
}

// What returns Text without who requested it and how to undo it.
func What(r policy.Record) string {
	return clean.Cut(clean.Text(cmp.Or(r.Text, sentence(r, nil))), maxText)
}

func compose(r policy.Record, commands func(string) string) string {
	s := sentence(r, commands)
	if by := r.By.String(); by != "" {
		s += ". Requested by " + by
	}
	if undo := Undo(r); undo != "" {
		s += ". Undo: " + undo
	}
	if len(r.Merge) > 0 {
		s += ". To merge the two: " + strings.Join(r.Merge, "; ")
	}
	return s
}

// sentence returns policy's sentence for the record, with the names in braces replaced. commands changes only the words
// around the names, which a pod may have chosen; nil changes nothing.
func sentence(r policy.Record, commands func(string) string) string {
	var b strings.Builder
	text := r.Sentence()
	for {
		fixed, rest, _ := strings.Cut(text, "{")
		name, after, found := strings.Cut(rest, "}")
		if commands != nil {
			fixed = commands(fixed)
		}
		b.WriteString(fixed)
		if !found {
			return b.String()
		}
		b.WriteString(value(r, name))
		text = after
	}
}

// value returns the text for a name in braces of a sentence.
func value(r policy.Record, name string) string {
	switch name {
	case "kind":
		return string(r.Kind)
	case "pod":
		return pod(r)
	case "why":
		return because(r)
	case "leaf":
		return cmp.Or(r.Leaf, "a volume's directory")
	case "taken":
		return taken(r.Taken)
	case "left":
		return left(r.Left)
	case "entry":
		return before(" as ", r.Entry)
	case "files":
		return files(r.Taken)
	case "pods":
		return pods(r)
	case "mounts":
		return mounts(r.Mounts)
	case "repaired":
		return repaired(r)
	case "archive":
		return r.Archive
	case "count":
		return count(r.PodCount, "pod", "pods")
	case "lines":
		return count(r.Lines, "line", "lines")
	case "stopped":
		return clock(r.LastLine, r.At.Wall)
	case "gone":
		return clock(r.Gone, r.At.Wall)
	}
	return "{" + name + "}"
}

// Undo returns the command that undoes r, or "".
func Undo(r policy.Record) string {
	if m := r.Kind.Means(); r.Undo == "" && r.UID != "" && m.Restores && !m.Intent {
		return policy.Undo(r.UID)
	}
	return r.Undo
}

// mounts lists mounts by their paths below the pod's directory.
func mounts(all []policy.Mount) string {
	paths := make([]string, 0, len(all))
	for _, m := range all {
		paths = append(paths, clean.Name(m.Path))
	}
	return cmp.Or(strings.Join(paths, ", "), "nothing")
}

// pod returns the name and UID of the pod, as far as they are known.
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

// before returns the name with a prefix, or "" if there is no name.
func before(prefix, name string) string {
	if name == "" {
		return ""
	}
	return prefix + name
}

// because returns a colon and the reasons with their details and the error, or "".
func because(r policy.Record) string {
	parts := make([]string, 0, len(r.Why)+1)
	for _, w := range r.Why {
		part := string(w.Reason)
		if w.Detail != "" && w.Reason != policy.ReasonWaived { // its detail is a setting, the same for each pod
			part += " (" + w.Detail + ")"
		}
		parts = append(parts, part)
	}
	same := func(w policy.Why) bool { return w.Detail == r.Err }
	if r.Err != "" && !slices.ContainsFunc(r.Why, same) {
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

// files returns the number of CNI files, by kind.
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

// pods returns the first pods of CNI files.
func pods(r policy.Record) string {
	if len(r.Pods) == 0 {
		return ""
	}
	const most = 3 // a sweep may have a hundred such lines; the record's field has more pods
	if len(r.Pods) > most {
		return " of " + strings.Join(r.Pods[:most], ", ") + " and others"
	}
	return " of " + strings.Join(r.Pods, ", ")
}

// repaired returns how many cache files were empty or unreadable, and the runtime with its version: only some versions
// fail on such a file (containerd#8197, cni#1055).
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
	return thousands(n) + " " + many
}

// thousands formats a non-negative number with a comma for each thousand.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clock formats a time in the zone of now, as the journal does, with the day if it is not the day of now.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// size formats bytes in binary units, as du -h does.
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
