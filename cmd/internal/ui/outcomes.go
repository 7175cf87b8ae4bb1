package ui

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// outcomeView is the result of one action of an operator.
type outcomeView struct {
	UID     string                  `json:"uid"`
	Entry   string                  `json:"entry"`
	Result  policy.Result           `json:"result"`
	Taken   map[string]policy.Tally `json:"taken"`
	Residue []policy.Residue        `json:"residue"`
	Why     []policy.Why            `json:"why"`
	Error   string                  `json:"error,omitempty"`
}

// Outcomes is the JSON of restore and purge.
type Outcomes struct {
	Outcomes []outcomeView `json:"outcomes"`
}

// NewOutcomes shows the results of an operator's actions.
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

// Restored is the JSON of restore.
type Restored struct {
	Outcomes
	CNI    []CNIOutcome  `json:"cni"`
	Totals RestoreTotals `json:"totals"`
}

// NewRestored shows a pod that was put back and the CNI files that came back with it.
func NewRestored(outcomes Outcomes, files cni.Restored) Restored {
	views, totals := cniOutcomes(files)
	return Restored{outcomes, views, totals}
}

// Restored writes the restored entries, and the others.
func (p *Printer) Restored(c Context, entry policy.EntryState, outcome policy.Outcome, files cni.Restored) {
	left := total(entry.Left)
	place := c.PodsDir + "/" + string(entry.UID)
	if entry.Leaf != "" {
		place += "/" + entry.Leaf
	}
	p.Printf("put back: %s\n", clean.Text(place))
	if left.Entries > 0 {
		p.Printf("  %s, %s\n", human.Count(left.Entries, "entry"), human.Size(left.Bytes))
	}
	p.taken("Not restored, because it was removed before", entry.Taken)
	if len(entry.Taken) > 0 {
		p.Para("  ", "The kubelet makes its own files and the projected payloads again if it runs the pod.")
	}
	p.volData(entry.VolData)
	p.CNIRestored(files)
	p.Gap()
	if outcome.Conflict != "" {
		p.Para("", "It had been made again meanwhile: the newer directory lies in quarantine as "+clean.Text(outcome.Conflict)+". Inspect it before you purge it.")
	}
	p.Para("", "The pod is kept from now on (reason restored). If it is no longer needed, have it judged again:")
	p.Printf("  orphan-reaper quarantine forget %s\n", entry.UID)
}

func hasData(rs []policy.Residue) bool {
	return slices.ContainsFunc(rs, policy.Residue.NeedsPerson)
}
