package view

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
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

// Outcomes is what restore and purge write in JSON.
type Outcomes struct {
	Outcomes []outcomeView `json:"outcomes"`
}

// NewOutcomes shows how actions by a person's word ended.
func NewOutcomes(outcomes []policy.Outcome) Outcomes {
	views := []outcomeView{}
	for _, o := range outcomes {
		views = append(views, outcomeView{
			string(o.Action.UID), o.Action.Entry, o.Result, takenByName(o.Taken), list(o.Left), list(o.Why), o.Err,
		})
	}
	return Outcomes{views}
}

func takenByName(taken map[contents.Class]policy.Tally) map[string]policy.Tally {
	byName := map[string]policy.Tally{}
	for class, t := range taken {
		byName[class.String()] = t
	}
	return byName
}

// Purged says for a person what a purge removed.
func (p *Printer) Purged(outcomes []policy.Outcome) {
	for _, o := range outcomes {
		switch o.Result {
		case policy.Done:
			var sum policy.Tally
			for _, t := range o.Taken {
				sum.Add(t)
			}
			p.Printf("purged: %s  %s, %s\n", o.Action.UID, human.Count(sum.Entries, "entry"), human.Size(sum.Bytes))
		case policy.Gone:
			p.Printf("gone already: %s\n", o.Action.UID)
		case policy.Refused, policy.Partly, policy.Failed, policy.Conflict:
		}
	}
}

// Restored is what restore writes in JSON.
type Restored struct {
	Outcomes
	CNI []CNIOutcome `json:"cni"`
}

// NewRestored shows a pod that was put back and the CNI files that came back with it.
func NewRestored(outcomes Outcomes, files []cni.Outcome) Restored {
	return Restored{outcomes, cniOutcomes(files)}
}

// Restored says for a person what came back, and what did not.
func (p *Printer) Restored(c Context, entry policy.EntryState, outcome policy.Outcome, files []cni.Outcome) {
	left := total(entry.Left)
	place := c.PodsDir + "/" + string(entry.UID)
	if entry.Leaf != "" {
		place += "/" + entry.Leaf
	}
	p.Printf("put back: %s\n", clean.Text(place))
	if left.Entries > 0 {
		p.Printf("  %s, %s\n", human.Count(left.Entries, "entry"), human.Size(left.Bytes))
	}
	if len(entry.Taken) > 0 {
		p.Heading("Not brought back, since it was removed before")
		for _, line := range takenLines(entry.Taken) {
			p.Para("  ", line)
		}
		p.Para("  ", "The kubelet makes its own files and the projected payloads again if it runs the pod.")
	}
	p.volData(entry.VolData)
	p.CNIRestored(files)
	p.Printf("\n")
	if outcome.Conflict != "" {
		p.Para("", "It had been made again meanwhile: the newer directory lies in quarantine as "+clean.Text(outcome.Conflict)+". Look at it before you purge it.")
	}
	p.Para("", "The pod is kept for ever from now on (reason restored).")
}

// PurgeQuestion says what a purge would remove. What lies in an entry is known only when
// what holds no data was taken from it: of one that was not yet confirmed dead, or that the
// ledger does not know, nobody has read the content, and it may be anything.
func PurgeQuestion(entries []policy.EntryState) string {
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
	text := "Remove for ever " + human.Count(len(entries), "pod")
	if unread < len(entries) {
		text += fmt.Sprintf(" with %s in quarantine", human.Size(sum.Bytes))
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
