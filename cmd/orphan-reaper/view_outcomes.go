package main

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// outcomeView is how one action by a person's word ended.
type outcomeView struct {
	UID     string                  `json:"uid"`
	Entry   string                  `json:"entry"`
	Result  policy.Result           `json:"result"`
	Taken   map[string]policy.Tally `json:"taken"`
	Residue []policy.Residue        `json:"residue"`
	Why     []policy.Why            `json:"why"`
	Error   string                  `json:"error,omitempty"`
}

// outcomesView is what restore and purge write in JSON.
type outcomesView struct {
	Outcomes []outcomeView `json:"outcomes"`
}

func outcomeViews(outcomes []policy.Outcome) outcomesView {
	views := []outcomeView{}
	for _, o := range outcomes {
		views = append(views, outcomeView{
			string(o.Action.UID), o.Action.Entry, o.Result, takenByName(o.Taken), list(o.Left), list(o.Why), o.Err,
		})
	}
	return outcomesView{views}
}

func takenByName(taken map[policy.Class]policy.Tally) map[string]policy.Tally {
	byName := map[string]policy.Tally{}
	for class, t := range taken {
		byName[class.String()] = t
	}
	return byName
}

// purged says for a person what a purge removed.
func (p *printer) purged(outcomes []policy.Outcome) {
	for _, o := range outcomes {
		switch o.Result {
		case policy.Done:
			var sum policy.Tally
			for _, t := range o.Taken {
				sum.Add(t)
			}
			p.f("purged: %s  %s, %s\n", o.Action.UID, count(sum.Entries, "entry"), size(sum.Bytes))
		case policy.Gone:
			p.f("gone already: %s\n", o.Action.UID)
		case policy.Refused, policy.Partly, policy.Failed, policy.Conflict:
		}
	}
}

// restoredView is what restore writes in JSON.
type restoredView struct {
	outcomesView
	CNI []cniOutcomeView `json:"cni"`
}

// viewRestored shows a pod that was put back and the CNI files that came back with it.
func viewRestored(outcomes outcomesView, files []cni.Outcome) restoredView {
	return restoredView{outcomes, cniOutcomes(files)}
}

// restored says for a person what came back, and what did not.
func (p *printer) restored(c viewContext, entry policy.EntryState, outcome policy.Outcome, files []cni.Outcome) {
	left := total(entry.Left)
	place := c.PodsDir + "/" + string(entry.UID)
	if entry.Leaf != "" {
		place += "/" + entry.Leaf
	}
	p.f("put back: %s\n", clean(place))
	if left.Entries > 0 {
		p.f("  %s, %s\n", count(left.Entries, "entry"), size(left.Bytes))
	}
	if len(entry.Taken) > 0 {
		p.heading("Not brought back, since it was removed before")
		for _, line := range takenLines(entry.Taken) {
			p.para("  ", line)
		}
		p.para("  ", "The kubelet makes its own files and the projected payloads again if it runs the pod.")
	}
	p.volData(entry.VolData)
	p.cniRestored(files)
	p.f("\n")
	if outcome.Conflict != "" {
		p.para("", "It had been made again meanwhile: the newer directory lies in quarantine as "+clean(outcome.Conflict)+". Look at it before you purge it.")
	}
	p.para("", "The pod is kept for ever from now on (reason restored).")
}

// purgeQuestion says what a purge would remove. What lies in an entry is known only when
// what holds no data was taken from it: of one that was not yet confirmed dead, or that the
// ledger does not know, nobody has read the content, and it may be anything.
func purgeQuestion(entries []policy.EntryState) string {
	var sum policy.Tally
	data, unread := 0, 0
	for _, e := range entries {
		sum.Add(total(e.Left))
		switch {
		case len(e.Left) == 0:
			unread++
		case hasData(e.Left):
			data++
		}
	}
	text := "Remove for ever " + count(len(entries), "pod")
	if unread < len(entries) {
		text += fmt.Sprintf(" with %s in quarantine", size(sum.Bytes))
	}
	if data > 0 {
		text += fmt.Sprintf(", %d of them with data that may be a user's", data)
	}
	switch {
	case unread == len(entries):
		text += ", whose content nobody has read: it may be a user's data"
	case unread > 0:
		text += fmt.Sprintf(", and %d of them with content that nobody has read and that may be a user's data", unread)
	}
	return text + "? This cannot be undone."
}

func hasData(rs []policy.Residue) bool {
	return slices.ContainsFunc(rs, policy.Residue.NeedsPerson)
}
