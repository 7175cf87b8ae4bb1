package ui

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Explanation is what there is of one pod: in a report, in quarantine and in the ledger.
type Explanation struct {
	report  Report
	context Context
	uid     parsers.PodUID
	pods    []*podView
	entries []policy.EntryState
	done    []policy.Record
}

// NewExplanation gathers what a report has of one pod; done are the ledger's records of it.
func NewExplanation(r reaper.Report, c Context, uid parsers.PodUID, done []policy.Record) Explanation {
	x := Explanation{report: NewReport(r, c), context: c, uid: uid, done: done}
	x.pods = append(sameUID(x.report.Pods, uid), sameUID(x.report.RuntimeOnly, uid)...)
	for _, e := range r.Entries {
		if e.UID == uid && e.Phase != policy.PhaseNone {
			x.entries = append(x.entries, e)
		}
	}
	return x
}

// Only leaves nothing but the entry of the pods directory of this name, which is no pod's.
func (x *Explanation) Only(name string) {
	x.pods = slices.DeleteFunc(x.pods, func(pod *podView) bool { return pod.evidence.Name != name })
}

// Empty reports whether there is nothing of the pod.
func (x Explanation) Empty() bool { return len(x.pods) == 0 && len(x.entries) == 0 && len(x.done) == 0 }

// NeedsPerson reports whether a person should look at the pod: it is kept, or lies in quarantine in conflict.
func (x Explanation) NeedsPerson() bool {
	return slices.ContainsFunc(x.entries, func(e policy.EntryState) bool { return e.Phase.OnlyByPerson() }) ||
		slices.ContainsFunc(x.pods, func(pod *podView) bool { return pod.outlook() == policy.OutlookPerson })
}

// Explain writes one pod for a person.
func (p *Printer) Explain(e Explanation) {
	x := explainer{Printer: p, Context: e.context, remover: e.report.remover}
	for _, pod := range e.pods {
		x.pod(pod, e.report.Node)
	}
	for i := range e.entries {
		if !shown(e.pods, e.entries[i].Entry) {
			x.entry(&e.entries[i])
		}
	}
	there := len(e.pods) > 0 || len(e.entries) > 0
	if len(e.done) > 0 && !there {
		x.gone(e.uid, e.done)
	}
	x.history(e.done)
	if !there {
		x.volData(gatherVolData(e.done))
	}
	p.lookErrors(&e.report)
	if len(e.pods) > 0 && e.report.Node != nil {
		p.ending(e.report.Node)
	}
}

// shown reports whether a quarantine entry has been explained as a parked pod.
func shown(pods []*podView, entry string) bool {
	for _, pod := range pods {
		if pod.Entry == entry {
			return true
		}
	}
	return false
}

// JSON is the report of one pod with the words for each of its reasons.
func (x Explanation) JSON() any {
	one := struct {
		Report
		Advice  []Advice       `json:"advice"`
		History []HistoryEntry `json:"history"`
	}{x.report, []Advice{}, viewHistory(x.done)}
	one.Pods, one.RuntimeOnly = []podView{}, []podView{}
	for _, pod := range x.pods {
		if pod.evidence.RuntimeOnly {
			one.RuntimeOnly = append(one.RuntimeOnly, *pod)
		} else {
			one.Pods = append(one.Pods, *pod)
		}
		for _, r := range pod.Reasons {
			one.Advice = append(one.Advice, AdviceOf(r, x.uid))
		}
	}
	one.Quarantine = []Entry{}
	for _, e := range x.report.Quarantine {
		if e.UID == string(x.uid) {
			one.Quarantine = append(one.Quarantine, e)
		}
	}
	return one
}
