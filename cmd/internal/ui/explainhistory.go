package ui

import (
	"maps"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
)

// HistoryEntry is one record of the ledger on a pod.
type HistoryEntry struct {
	Seq     int64                   `json:"seq"`
	Time    time.Time               `json:"time"`
	Kind    policy.Kind             `json:"kind"`
	By      *who.Person             `json:"by"` // null: the daemon's work, or not known
	Text    string                  `json:"text"`
	Entry   string                  `json:"entry"`
	Why     []policy.Why            `json:"why"`
	Taken   map[string]policy.Tally `json:"taken"`
	Residue []policy.Residue        `json:"residue"`
	VolData map[string]string       `json:"vol_data"`
	Error   string                  `json:"error"`
	Undo    string                  `json:"undo"`
}

func viewHistory(done []policy.Record) []HistoryEntry {
	views := []HistoryEntry{}
	for _, r := range done {
		v := HistoryEntry{
			Seq: r.Seq, Time: r.At.Wall.UTC(), Kind: r.Kind, By: r.By, Text: audit.Text(r), Entry: r.Entry, Why: list(r.Why),
			Taken: r.Taken, Residue: list(r.Left), VolData: r.VolData, Error: r.Err, Undo: audit.Undo(r),
		}
		if v.Taken == nil {
			v.Taken = map[string]policy.Tally{}
		}
		if v.VolData == nil {
			v.VolData = map[string]string{}
		}
		views = append(views, v)
	}
	return views
}

// gone begins the story of a pod of which nothing is there any more.
func (x explainer) gone(uid parsers.PodUID, done []policy.Record) {
	x.Printf("%s\n", x.Paint(Bold, "Pod "+string(uid)))
	for _, r := range done {
		if r.PodName != "" {
			x.line("name", podName(r.Namespace, r.PodName))
			break
		}
	}
	x.Printf("\n")
	x.Para("", "Nothing of this pod is in the pods directory or in quarantine. The ledger has its history.")
}

// gatherVolData gathers what the records have kept of vol_data.json files: it is nowhere else.
func gatherVolData(done []policy.Record) map[string]string {
	all := map[string]string{}
	for _, r := range done {
		maps.Copy(all, r.VolData)
	}
	return all
}

// history writes what was done with a pod, the oldest first.
func (x explainer) history(done []policy.Record) {
	if len(done) == 0 {
		return
	}
	x.Heading("What was done")
	for _, r := range done {
		x.Printf("  %s  %s", human.When(r.At.Wall), r.Kind)
		if by := r.By.String(); by != "" {
			x.Printf(", asked for by %s", by)
		}
		x.Printf("\n")
		x.Para("    ", audit.What(r)) // what undoes it now stands above, where something does
	}
}
