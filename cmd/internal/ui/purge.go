package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// PurgeDone writes the results of a purge.
func (p *Printer) PurgeDone(outcomes []policy.Outcome) {
	for _, o := range outcomes {
		switch o.Result {
		case policy.Done:
			var sum policy.Tally
			for _, t := range o.Taken {
				sum.Add(t)
			}
			p.Printf("purged: %s  %s, with the directories around them\n", o.Action.UID, filesOf(sum))
		case policy.Gone:
			p.Printf("gone already: %s\n", o.Action.UID)
		case policy.Refused, policy.Partly, policy.Failed, policy.Conflict:
		}
	}
}

// A question lists this many entries, and of each this many volumes, at the most.
const (
	mostAskedEntries = 20
	mostAskedVolumes = 8
)

// PurgeQuestion returns the effect of a purge: each entry with its pod, volumes, drivers and bytes, then the
// sum. An entry's content is known only once its data-free part was removed: if the entry was not yet confirmed
// dead, or is not in the ledger, its content was never read and may be anything.
func PurgeQuestion(entries []policy.EntryState) string {
	var b strings.Builder
	named := false
	for i, e := range entries {
		if i == mostAskedEntries {
			fmt.Fprintf(&b, "and %d more\n", len(entries)-i)
			break
		}
		named = named || e.PodName != ""
		askEntry(&b, e)
	}
	if named {
		b.WriteString("A pod may have written its name itself: its UID counts.\n")
	}
	return b.String() + "Permanently remove " + PurgeSum(entries) + "? This cannot be undone."
}

// askEntry describes one entry in a question.
func askEntry(b *strings.Builder, e policy.EntryState) {
	fmt.Fprintf(b, "Pod %s", e.UID)
	if name := clean.Text(policy.FullName(e.Namespace, e.PodName)); name != "" {
		b.WriteString(", " + name)
	}
	if e.Entry != string(e.UID) {
		b.WriteString(", entry " + clean.Text(e.Entry))
	}
	if len(e.Left) == 0 {
		b.WriteString(": its content is not known\n")
		return
	}
	fmt.Fprintf(b, ": %s\n", held(e))
	volumes := slices.DeleteFunc(slices.Clone(e.Left), func(r policy.Residue) bool {
		return r.Class != contents.ClassEphemeral && !r.NeedsPerson()
	})
	for i, r := range volumes {
		if i == mostAskedVolumes {
			fmt.Fprintf(b, "  and %d more\n", len(volumes)-i)
			break
		}
		fmt.Fprintf(b, "  %s: %s, %s\n", clean.Text(r.Path), r.Class, human.Size(r.Bytes))
	}
	if drivers := Drivers(e.VolData); len(drivers) > 0 {
		fmt.Fprintf(b, "  CSI driver: %s\n", strings.Join(drivers, ", "))
	}
}

// held describes the size of entries of the quarantine.
func held(entries ...policy.EntryState) string {
	var sum policy.Tally
	least := ""
	for _, e := range entries {
		for _, r := range e.Left {
			sum.Add(policy.Tally{Entries: r.Entries, Bytes: r.Bytes})
		}
		if slices.ContainsFunc(e.Left, func(r policy.Residue) bool { return r.Partial }) {
			least = "at least "
		}
	}
	return least + filesOf(sum)
}

func filesOf(sum policy.Tally) string {
	files := human.Thousands(sum.Entries) + " files and directories"
	if sum.Entries == 1 {
		files = "1 file or directory"
	}
	return files + ", " + human.Size(sum.Bytes)
}

// PurgeSum summarizes in one line what a purge would remove.
func PurgeSum(entries []policy.EntryState) string {
	data, unread := 0, 0
	pods := map[parsers.PodUID]bool{}
	for _, e := range entries {
		pods[e.UID] = true
		switch {
		case len(e.Left) == 0:
			unread++
		case hasData(e.Left):
			data++
		}
	}
	text := human.Count(len(pods), "pod")
	if len(pods) != len(entries) {
		text += " in " + human.Count(len(entries), "entry")
	}
	if unread < len(entries) {
		text += fmt.Sprintf(" with %s in quarantine", held(entries...))
	}
	with := func(n int, what string) {
		if n == len(entries) {
			text += ", with " + what
		} else if n > 0 {
			text += fmt.Sprintf(", %d of them with %s", n, what)
		}
	}
	with(data, "data that may be a user's")
	with(unread, "content that is not known and may be a user's data")
	return text
}
