package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Report writes the result of scan or of sweep: the sums, the table, and what to do.
func (p *Printer) Report(v *Report) {
	shown, head := v.shown(), "VERDICT"
	if v.show.Swept {
		head = "OUTCOME"
	}
	p.Aside(func() { p.sums(v, shown) })
	p.Table(head, v.wordWidth(), "POD", "NAME; REASONS", v.podRows(shown))
	p.Table(head, v.wordWidth(), "CNI", "NAME; REASONS", v.cniRows())
	p.Aside(func() {
		p.lookErrors(v)
		p.whatToDo(v, shown)
		p.conflicts(v)
		if !v.show.Swept && v.Node != nil {
			p.ending(v.Node)
		}
	})
}

// wordWidth returns the width of the table's first column, and of the labels below it.
func (v *Report) wordWidth() int {
	if v.show.Swept {
		return 18
	}
	return 9
}

// The table's words that are neither a verdict nor an outcome.
const (
	wordAlive = "alive"
	wordWait  = string(policy.Wait)
)

// tableWords are the words in the order of the table: what is removed, what waits, what is kept, what lives.
var tableWords = []struct {
	word      string
	colour    Colour // green for what was or can be removed, yellow for what waits, red for what failed; none for the rest
	one, many string // in a sum
	size      bool   // the sum has a size
}{
	{string(policy.Reap), Green, "would be removed", "would be removed", true},
	{outcomeWouldRemove, Green, "would be removed", "would be removed", true},
	{outcomeWouldQuarantine, Green, "would be quarantined", "would be quarantined", true},
	{outcomeRemoved, Green, outcomeRemoved, outcomeRemoved, true},
	{outcomeQuarantined, Green, outcomeQuarantined, outcomeQuarantined, true},
	{wordWait, Yellow, "waits", "wait", true},
	{outcomeFailed, Red, outcomeFailed, outcomeFailed, false},
	{string(policy.Keep), "", "is kept", "are kept", false},
	{outcomeKept, "", outcomeKept, outcomeKept, false},
	{wordAlive, "", "lives", "live", false},
}

func orderOf(word string) int {
	for i := range tableWords {
		if tableWords[i].word == word {
			return i
		}
	}
	return len(tableWords)
}

// verdictOf returns a pod's verdict, or wordAlive if it lives.
func verdictOf(pod *podView) string {
	if pod.outlook() == policy.OutlookAlive {
		return wordAlive
	}
	return string(pod.Verdict)
}

// word returns the table's word for a pod: the verdict, or after a sweep the outcome.
func (v *Report) word(pod *podView) string {
	verdict := verdictOf(pod)
	if v.show.Swept && pod.Outcome != outcomeKept || v.show.Swept && verdict == string(policy.Keep) {
		return pod.Outcome
	}
	return verdict
}

// colourOf returns the colour of a word, red for what needs an operator.
func colourOf(word string, person bool) Colour {
	if person && (word == string(policy.Keep) || word == outcomeKept) {
		return Red
	}
	if i := orderOf(word); i < len(tableWords) {
		return tableWords[i].colour
	}
	return ""
}

// podRows returns the rows of the pods that the table lists, in its order.
func (v *Report) podRows(shown []podView) (rows []Row) {
	for _, t := range tableWords {
		for i := range shown {
			pod := &shown[i]
			if v.word(pod) != t.word || !v.lists(pod) {
				continue
			}
			r := Row{
				Word: t.word, Colour: colourOf(t.word, pod.outlook() == policy.OutlookPerson), Title: pod.title(), Reasons: pod.Reasons,
				Name: podName(pod.Namespace, pod.Name), Bytes: total(pod.Residue).Bytes, Unread: pod.evidence.Unread,
			}
			if v.show.Swept && t.word == wordAlive {
				r.Word = outcomeKept
			}
			if pod.Parked && pod.Outcome != outcomeRemoved {
				r.Notes = append(r.Notes, "parked")
			}
			if pod.evidence.RuntimeOnly {
				r.Notes = append(r.Notes, "only in the runtime")
			}
			if at, ok := v.holdEnds(pod); ok {
				r.Notes = append(r.Notes, "until "+at)
			}
			if partial(pod.Residue) {
				r.Notes = append(r.Notes, partialNote)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// holdEnds returns when a pod that only waits for time to pass can be removed. It returns nothing without a daemon: a scan
// begins no hold.
func (v *Report) holdEnds(pod *podView) (at string, ok bool) {
	byTime := func(r policy.Reason) bool {
		return r == policy.ReasonHold || r == policy.ReasonYoung || r == policy.ReasonWaived
	}
	others := slices.ContainsFunc(pod.Reasons, func(r policy.Reason) bool { return !byTime(r) })
	if pod.Verdict != policy.Wait || pod.DueSeconds == 0 || others || len(pod.Clear) > 0 || v.remover.NoDaemon() && !v.show.Swept {
		return "", false
	}
	return human.Clock(v.now.Add(time.Duration(pod.DueSeconds)*time.Second), v.now), true
}

// sums writes the number of pods and files for each word, and the size of the quarantine.
func (p *Printer) sums(v *Report, shown []podView) {
	if v.halted {
		p.Para("", Halted)
	}
	type sum struct {
		pods    int
		bytes   int64
		partial bool
	}
	sums, person := map[string]sum{}, 0
	for i := range shown {
		pod := &shown[i]
		s := sums[v.word(pod)]
		sums[v.word(pod)] = sum{s.pods + 1, s.bytes + total(pod.Residue).Bytes, s.partial || partial(pod.Residue)}
		if pod.outlook() == policy.OutlookPerson {
			person++
		}
	}
	var parts []string
	for _, t := range tableWords {
		s := sums[t.word]
		if s.pods == 0 || t.word == wordAlive {
			continue
		}
		text := human.Verb(s.pods, t.one, t.many)
		if s.bytes > 0 && t.size {
			text += " (" + size(s.bytes, s.partial) + ")"
		}
		parts = append(parts, text)
	}
	if person > 0 {
		parts = append(parts, human.Verb(person, "needs", "need")+" you")
	}
	switch dead := len(shown) - sums[wordAlive].pods; {
	case len(shown) == 0 && len(v.show.Only) > 0: // the errors name them
	case len(shown) == 0:
		p.Printf("No pod directories.\n")
	case dead == 0:
		p.Printf("No orphaned pods.\n")
	default:
		p.Para("", human.Count(dead, "pod")+": "+strings.Join(parts, ", ")+".")
	}
	for _, text := range v.cniSums() {
		p.Para("", text)
	}
	p.unlisted(sums[wordAlive].pods, v.listsWord(wordAlive), "lives", "live")
	if text := quarantined(v.Quarantine, v.unlisted); text != "" && !v.show.Swept {
		p.Para("", text)
	}
}

// unlisted writes the number of pods that live, and whether the table lists them.
func (p *Printer) unlisted(n int, listed bool, one, many string) {
	if n == 0 {
		return
	}
	text := human.Count(n, "pod") + " " + human.Plural(n, one, many)
	if !listed {
		text += " and " + human.Plural(n, "is", "are") + " not listed (scan --all)"
	}
	p.Para("", text+".")
}

// quarantined describes the quarantine's size, and the part that is kept until an operator acts.
func quarantined(entries []Entry, unlisted int) string {
	if len(entries)+unlisted == 0 {
		return ""
	}
	text := "In quarantine: " + entrySum(entries)
	if unlisted > 0 {
		text += "; " + human.Count(unlisted, "more directory") + " that the ledger does not have"
	}
	return text + "."
}

const mostConflicts = 3

// conflicts returns the requested pods with an entry in quarantine that is kept until an operator acts.
func (v *Report) conflicts() (uids []parsers.PodUID) {
	for i := range v.Quarantine {
		e := &v.Quarantine[i]
		if uid := parsers.PodUID(e.UID); e.Phase.OnlyByPerson() && (len(v.show.Only) == 0 || slices.Contains(v.show.Only, uid)) && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (p *Printer) conflicts(v *Report) {
	uids := v.conflicts()
	if len(uids) == 0 {
		return
	}
	p.Gap()
	p.Para("", "In conflict: "+human.Count(len(uids), "pod")+" "+human.Plural(len(uids), "lives", "live")+
		" again, with a directory in quarantine. That one stays until you decide:")
	for i, uid := range uids {
		if i == mostConflicts {
			p.Printf("  # … and %s: orphan-reaper quarantine list\n", human.Count(len(uids)-i, "more pod"))
			return
		}
		p.Printf("  orphan-reaper explain %s\n", clean.Text(string(uid)))
	}
}

const sweepCommand = "orphan-reaper sweep"

// whatToDo writes, for each word in the table, what will happen or what the operator can do.
func (p *Printer) whatToDo(v *Report, shown []podView) {
	counts := map[string]int{}
	var clears, runtimeOnly, used int
	var ends string
	p.Gap()
	item := func(label string, c Colour, text string) { p.Item("", label, v.wordWidth(), c, text) }
	for i := range shown {
		pod := &shown[i]
		if pod.Error != "" {
			item(outcomeFailed, Red, pod.UID+": "+clean.Text(pod.Error))
		}
		if !v.lists(pod) {
			continue
		}
		switch word := v.word(pod); {
		case len(pod.Clear) > 0 && word != outcomeQuarantined:
			clears++
		case word == wordWait && Ends(pod.Why) != "":
			used, ends = used+1, Ends(pod.Why)
		case (word == string(policy.Keep) || word == outcomeKept) && pod.outlook() != policy.OutlookPerson:
		default:
			counts[word]++
		}
		if pod.evidence.RuntimeOnly {
			runtimeOnly++
		}
	}
	if runtimeOnly > 0 {
		item("gone", "", human.Count(runtimeOnly, "more pod")+" only in the runtime: no directory, and a sandbox or container.")
	}
	if counts[string(policy.Reap)] > 0 && !v.misplaced {
		item("reap", Green, cmp.Or(v.remover.Now("them", sweepCommand), "The daemon removes them by itself. To remove them now: "+sweepCommand))
	}
	if counts[outcomeQuarantined] > 0 {
		item(outcomeQuarantined, Green, "When it is purged: orphan-reaper quarantine list")
		item("", "", "To put it back: orphan-reaper quarantine restore POD")
	}
	if clears > 0 {
		item("clear", Green, human.Count(clears, "pod")+": a sweep would quarantine what keeps the kubelet from finishing. What that is: orphan-reaper explain POD")
	}
	if used > 1 {
		ends = "nothing uses a file of them, or the kubelet reports them"
	}
	if used > 0 {
		item(wordWait, Yellow, v.remover.After(ends, sweepCommand))
	}
	if counts[wordWait] > 0 {
		item(wordWait, Yellow, cmp.Or(v.remover.Later(sweepCommand), "Nothing to do: it ends by itself."))
	}
	if counts[string(policy.Keep)]+counts[outcomeKept] > 0 {
		item("keep", Red, "What keeps a pod, and what to do about it: orphan-reaper explain POD")
	}
}

// ending writes how many pods the kubelet is terminating.
func (p *Printer) ending(n *nodeView) {
	if working, ok := n.Gauges.Ending(); ok && working > 0 {
		p.Gap()
		p.Para("", fmt.Sprintf("The kubelet is still terminating %s (kubelet_working_pods). If that number stays, it does not finish: "+
			"its log has the cause, and a restart ends it (kubernetes#113145).", human.Count(working, "pod")))
	}
}

func (p *Printer) lookErrors(v *Report) {
	if len(v.Errors) == 0 {
		return
	}
	p.Gap()
	p.Printf("%s\n", p.Paint(Yellow, "Not everything could be read:"))
	for _, e := range v.Errors {
		p.Item("  ", "-", 2, "", clean.Text(e))
	}
}
