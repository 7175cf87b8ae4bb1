package ui

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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

const mostAsked = 20

// Purging lists the entries that a purge would remove. The content of an entry that was not confirmed dead, or is not in the
// ledger, was never read.
func (p *Printer) Purging(entries []policy.EntryState, c Context) {
	var views []Entry
	for _, e := range entries[:min(len(entries), mostAsked)] {
		views = append(views, viewEntry(e, c))
	}
	p.Table("PHASE", 11, "POD", "NAME; SINCE; PURGE", entryRows(views, c.Now.Wall))
	if more := len(entries) - len(views); more > 0 {
		p.Printf("… and %s\n", human.Count(more, "more entry"))
	}
	if slices.ContainsFunc(entries, func(e policy.EntryState) bool { return e.PodName != "" }) {
		p.Para("", "A pod may have written its name itself: its UID counts.")
	}
}

// sizeOf describes the size of quarantine entries.
func sizeOf(entries ...policy.EntryState) string {
	var sum policy.Tally
	least := ""
	for _, e := range entries {
		for _, r := range e.Left {
			sum.Add(policy.Tally{Entries: r.Entries, Bytes: r.Bytes})
		}
		if partial(e.Left) {
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
		text += fmt.Sprintf(" with %s in quarantine", sizeOf(entries...))
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
