package ui

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Explanation is everything about one pod: in a report, in quarantine and in the ledger.
type Explanation struct {
	Report
	Advice  []Advice       `json:"advice"`
	History []HistoryEntry `json:"history"`

	context Context
	uid     parsers.PodUID
	pods    []*podView
	entries []policy.EntryState
	done    []policy.Record
}

// HistoryEntry is one record of the ledger on a pod.
type HistoryEntry struct {
	Seq     int64                   `json:"seq"`
	Time    time.Time               `json:"time"`
	Kind    policy.Kind             `json:"kind"`
	By      *policy.User            `json:"by"` // null: the daemon, or not known
	Text    string                  `json:"text"`
	Entry   string                  `json:"entry"`
	Why     []policy.Why            `json:"why"`
	Taken   map[string]policy.Tally `json:"taken"`
	Residue []policy.Residue        `json:"residue"`
	VolData map[string]string       `json:"vol_data"`
	Error   string                  `json:"error"`
	Undo    string                  `json:"undo"`
}

// NewExplanation collects a report's data about one pod; done are the ledger's records of it. Without a UID it describes the
// entry of the pods directory with this name.
func NewExplanation(r reaper.Report, c Context, uid parsers.PodUID, name string, done []policy.Record) Explanation {
	x := Explanation{Report: NewReport(r, c, Show{}), Advice: []Advice{}, History: []HistoryEntry{}, context: c, uid: uid, done: done}
	other := func(pod podView) bool { return pod.UID != string(uid) || uid == "" && pod.evidence.Name != name }
	for _, pods := range []*[]podView{&x.Pods, &x.RuntimeOnly} {
		*pods = slices.DeleteFunc(*pods, other)
		for i := range *pods {
			pod := &(*pods)[i]
			x.pods = append(x.pods, pod)
			for _, r := range pod.Reasons {
				x.Advice = append(x.Advice, AdviceOf(r, pod.evidence))
			}
		}
	}
	x.Quarantine = slices.DeleteFunc(x.Quarantine, func(e Entry) bool { return e.UID != string(uid) })
	for _, e := range r.Entries {
		if e.UID == uid && e.Phase != policy.PhaseNone {
			x.entries = append(x.entries, e)
		}
	}
	for _, r := range done {
		x.History = append(x.History, HistoryEntry{
			Seq: r.Seq, Time: r.At.Wall.UTC(), Kind: r.Kind, By: r.By, Text: audit.Text(r), Entry: r.Entry, Why: list(r.Why),
			Taken: object(r.Taken), Residue: list(r.Left), VolData: object(r.VolData), Error: r.Err, Undo: audit.Undo(r),
		})
	}
	return x
}

// Empty reports whether neither the node nor the ledger has the pod.
func (x Explanation) Empty() bool { return len(x.pods) == 0 && len(x.entries) == 0 && len(x.done) == 0 }

// NeedsPerson reports whether an operator should look at the pod: it is kept, or is in quarantine in conflict.
func (x Explanation) NeedsPerson() bool {
	return slices.ContainsFunc(x.entries, func(e policy.EntryState) bool { return e.Phase.OnlyByPerson() }) ||
		slices.ContainsFunc(x.pods, func(pod *podView) bool { return pod.outlook() == policy.OutlookPerson })
}

// object returns m, or an empty map if m is nil: the JSON has no null objects.
func object[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}
