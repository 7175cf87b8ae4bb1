package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/advice"
	"github.com/orphan-reaper/orphan-reaper/parsers"
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

// A question lists this many entries, and of each this many volumes, at the most.
const (
	mostAskedEntries = 20
	mostAskedVolumes = 8
)

// PurgeQuestion says what a purge would remove: each entry with its pod, volumes, drivers and
// bytes, then the sum. What lies in an entry is known only when what holds no data was taken from
// it: of one that was not yet confirmed dead, or that the ledger does not know, nobody has read the
// content, and it may be anything.
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
	return b.String() + askSum(entries)
}

// askEntry describes one entry in a question.
func askEntry(b *strings.Builder, e policy.EntryState) {
	fmt.Fprintf(b, "Pod %s", e.UID)
	if name := podName(e.Namespace, e.PodName); name != "" {
		b.WriteString(", " + name)
	}
	if e.Entry != string(e.UID) {
		b.WriteString(", entry " + clean.Text(e.Entry))
	}
	if len(e.Left) == 0 {
		b.WriteString(": nobody has read what it holds\n")
		return
	}
	fmt.Fprintf(b, ": %s\n", human.Size(total(e.Left).Bytes))
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
	if drivers := advice.Drivers(e.VolData); len(drivers) > 0 {
		fmt.Fprintf(b, "  CSI driver: %s\n", strings.Join(drivers, ", "))
	}
}

// askSum is the question itself, in one line.
func askSum(entries []policy.EntryState) string {
	var sum policy.Tally
	data, unread := 0, 0
	pods := map[parsers.PodUID]bool{}
	for _, e := range entries {
		pods[e.UID] = true
		sum.Add(total(e.Left))
		switch {
		case len(e.Left) == 0:
			unread++
		case hasData(e.Left):
			data++
		}
	}
	text := "Remove for ever " + human.Count(len(pods), "pod")
	if len(pods) != len(entries) {
		text += " in " + human.Count(len(entries), "entry")
	}
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
