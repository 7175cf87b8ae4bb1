package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// NodeReport is the JSON of report.
type NodeReport struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// RecordsSince is null if there are no records. Incomplete is true if the range begins before them.
	RecordsSince *time.Time    `json:"records_since"`
	Incomplete   bool          `json:"incomplete"`
	Done         summary.Done  `json:"done"`
	Days         []summary.Day `json:"days"`
	Quarantine   QuarantineSum `json:"in_quarantine"`
	Kept         []KeptSum     `json:"kept"`
	// KeptAt is the time of the look that recorded Kept, null if unknown.
	KeptAt *time.Time   `json:"kept_at"`
	Lines  KubeletLines `json:"kubelet_lines"`

	entries []Entry
}

// QuarantineSum is the content of the quarantine now.
type QuarantineSum struct {
	Entries   int   `json:"entries"`
	Bytes     int64 `json:"bytes"`
	ForPerson int   `json:"for_person"` // entries that are kept until an operator acts
	// ForPersonBytes is the part of Bytes in these.
	ForPersonBytes int64 `json:"for_person_bytes"`
}

// KeptSum is how many pods the last look kept for the same reasons.
type KeptSum struct {
	Pods    int      `json:"pods"`
	Reasons []string `json:"reasons"`
}

// KubeletLines counts lines in the kubelet's log.
type KubeletLines struct {
	Pods     int64 `json:"quiet_pods"`
	Lines    int64 `json:"lines"`
	Going    int64 `json:"going_lines"`
	GoingOn  int   `json:"going_pods"`
	Estimate int64 `json:"estimate_by_now"`
	// The same in bytes of the log.
	Bytes         int64 `json:"bytes"`
	GoingBytes    int64 `json:"going_bytes"`
	EstimateBytes int64 `json:"estimate_bytes"`
	// First is when the first message stopped, null if none did.
	First *time.Time `json:"first_stopped"`

	goingLast time.Time // when the last line of Going was written
}

// NewNodeReport makes the report of an account.
func NewNodeReport(a summary.Account, entries []policy.EntryState, m decide.Memory, c Context) NodeReport {
	v := NodeReport{
		Node: c.Node, Since: a.From, Until: a.Now.UTC(), Incomplete: a.Short(), Done: a.Done, Days: append([]summary.Day{}, a.Days...), Kept: keptOf(m.Recorded),
		Lines: KubeletLines{
			Pods: a.Quiet.Pods, Lines: a.Quiet.Lines, Going: a.Going, GoingOn: a.GoingPods, Estimate: a.Estimate,
			Bytes: a.Quiet.Bytes, GoingBytes: a.GoingBytes, EstimateBytes: a.EstimateBytes, goingLast: a.GoingLast,
		},
	}
	if !a.Since.IsZero() {
		v.RecordsSince = new(a.Since.UTC())
	}
	if !m.Looked.Wall.IsZero() {
		v.KeptAt = new(m.Looked.Wall.UTC())
	}
	if !a.Quiet.First.IsZero() {
		v.Lines.First = new(a.Quiet.First.UTC())
	}
	for _, e := range entries {
		if !e.Phase.InQuarantine() {
			continue
		}
		one := viewEntry(e, c)
		v.entries = append(v.entries, one)
		v.Quarantine.Entries++
		v.Quarantine.Bytes += one.Bytes
		if one.Phase.OnlyByPerson() || one.data {
			v.Quarantine.ForPerson++
			v.Quarantine.ForPersonBytes += one.Bytes
		}
	}
	return v
}

// keptOf counts the kept pods by their reasons, the most frequent first.
func keptOf(recorded map[parsers.PodUID]string) []KeptSum {
	counts := map[string]int{}
	for _, words := range recorded {
		if reasons, ok := strings.CutPrefix(words, string(policy.Keep)+" "); ok {
			counts[reasons]++
		}
	}
	all := []KeptSum{}
	for reasons, n := range counts {
		all = append(all, KeptSum{n, strings.Fields(reasons)})
	}
	slices.SortFunc(all, func(a, b KeptSum) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), slices.Compare(a.Reasons, b.Reasons))
	})
	return all
}

const reportLabel = 15

const mostKept = 5

// WriteNodeReport writes the report.
func WriteNodeReport(p *Printer, v *NodeReport) {
	p.Printf("%s\n", p.Paint(Bold, "Node "+v.Node+", "+v.Since.Format(time.DateOnly)+" to "+human.When(v.Until)))
	item := func(label, text string) { p.Item("  ", label, reportLabel, "", text) }
	switch {
	case v.Incomplete && v.RecordsSince == nil:
		p.Item("  ", "Records", reportLabel, Yellow, "There are none: nothing was done yet, or not with this state directory.")
	case v.Incomplete:
		p.Item("  ", "Records", reportLabel, Yellow, "They begin at "+human.When(*v.RecordsSince)+". What was done before that is not known.")
	}
	d := v.Done
	item("Pods", human.Thousands(d.Parked)+" moved to quarantine, "+human.Thousands(d.Removed)+" permanently removed"+andMore(d.PutBack, " put back"))
	if d.Cleared > 0 {
		item("Volumes", human.Count(d.Cleared, "directory")+" cleared, so that the kubelet could finish")
	}
	if d.CNIFiles+d.CNIBack > 0 {
		item("CNI", human.Count(d.CNIFiles, "file")+" removed, and with them "+human.Count(d.Addresses, "address")+" of IPAM freed"+
			andMore(d.CNIBack, human.Plural(d.CNIBack, " file", " files")+" put back"))
	}
	item("Given back", human.Size(d.Bytes)+" in "+human.Count(d.Entries, "entry"))
	if d.Failed > 0 {
		item("Failed", human.Count(d.Failed, "action")+": journalctl -t orphan-reaper ORPHAN_REAPER_KIND=failed")
	}
	if len(v.entries) == 0 {
		item("In quarantine", "nothing")
	} else {
		item("In quarantine", entrySum(v.entries))
		item("", "orphan-reaper quarantine list")
	}
	if len(v.Kept) > 0 && v.KeptAt != nil {
		item("Kept", "at the last look that found a change ("+human.Clock(*v.KeptAt, v.Until)+")")
	}
	for _, k := range v.Kept[:min(len(v.Kept), mostKept)] {
		item("", human.Count(k.Pods, "pod")+": "+strings.Join(k.Reasons, ", "))
	}
	if n := len(v.Kept) - mostKept; n > 0 {
		item("", "and pods for "+human.Count(n, "other set")+" of reasons: orphan-reaper scan")
	}
	for i, text := range v.lines() {
		item([...]string{"Kubelet lines", ""}[min(i, 1)], text)
	}
}

func andMore(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return ", " + human.Thousands(n) + what
}

// lines describes how many lines the kubelet wrote until its messages stopped, how many it would have written by now, and how
// many it wrote about pods whose messages go on.
func (v *NodeReport) lines() (texts []string) {
	l := v.Lines
	if l.Pods > 0 {
		texts = append(texts, human.Thousands(l.Lines)+" ("+human.Size(l.Bytes)+") about "+human.Count(l.Pods, "pod")+", until the message stopped")
	}
	if l.Estimate > 0 {
		texts = append(texts, "about "+human.Thousands(l.Estimate)+" ("+human.Size(l.EstimateBytes)+") more by now without orphan-reaper (an estimate: "+
			"one line every 2 s since "+human.When(*l.First)+", when the first message stopped, less all lines that were written)")
	}
	if l.GoingOn > 0 {
		texts = append(texts, human.Thousands(l.Going)+" ("+human.Size(l.GoingBytes)+") about "+human.Count(l.GoingOn, "pod")+", of which no end of the message is recorded yet; the last line is of "+
			human.Clock(l.goingLast, v.Until))
	}
	if len(texts) == 0 {
		texts = append(texts, "none were counted: only the daemon counts them")
	}
	return texts
}
