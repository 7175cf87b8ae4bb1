package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/inventory"
)

// Scan is scan for a person: the sums, the table, and what to do.
func (p *Printer) Scan(v *Report) {
	shown := v.shown()
	p.Aside(func() { p.halted(v); p.sums(v, shown) })
	p.Table("VERDICT", verdictWidth, "POD", podRows(v.listed(shown), never, verdictWord))
	p.Table("VERDICT", verdictWidth, "CNI", cniRows(v.listedCNI(), v.all, func(f *cniView) (string, Colour) {
		return string(f.Verdict), colourOf(string(f.Verdict), f.person())
	}))
	p.Aside(func() {
		p.more(v)
		p.lookErrors(v)
		p.whatToDo(v.taker, v.listed(shown))
		p.conflicts(v)
		p.kubeletCounts(v.Node)
		p.inventory(v.Node)
		p.means(v.Node)
	})
}

// halted says that the breaker is open: who resumes has to look first.
func (p *Printer) halted(v *Report) {
	if v.halted {
		p.Para("", Halted)
	}
}

// more says that CNI's files are told of as far as a report has them.
func (p *Printer) more(v *Report) {
	if v.CNITotals.More > 0 {
		p.Printf("\n%s more are counted, and not listed.\n", human.Count(v.CNITotals.More, "CNI file"))
	}
}

const sweepCommand = "orphan-reaper sweep"

const verdictWidth = 9 // of the table's first column, and of the legend's

// whatToDo says for each verdict of the table what ends it.
func (p *Printer) whatToDo(t Taker, shown []podView) {
	counts := map[string]int{}
	var longest time.Duration
	clears, gone, used, named, ends, person := 0, 0, 0, 0, "", false
	for i := range shown {
		pod := &shown[i]
		counts[verdictOf(pod)]++
		if len(pod.Clear) > 0 {
			clears++
		}
		if pod.evidence.RuntimeOnly {
			gone++
		}
		if what := InUse(pod.Why); pod.Verdict == policy.Wait && what != "" {
			used, ends = used+1, what
		} else if pod.Verdict == policy.Wait && slices.Contains(pod.Reasons, policy.ReasonKubeletFile) {
			named++
		}
		person = person || pod.outlook() == policy.OutlookPerson
		longest = max(longest, time.Duration(pod.DueSeconds)*time.Second)
	}
	if counts["alive"] < len(shown) {
		p.Printf("\n")
	}
	item := func(label string, c Colour, text string) { p.Item("", label, verdictWidth, c, text) }
	if gone > 0 {
		item("gone", "", human.Count(gone, "more pod")+" only in the runtime: no directory, and a sandbox or container.")
	}
	if counts["reap"] > 0 {
		item("reap", green, cmp.Or(t.Now("them", sweepCommand), "The daemon removes them by itself. To remove them now: "+sweepCommand))
	}
	if clears > 0 {
		item("clear", green, human.Count(clears, "pod")+": a sweep would quarantine what keeps the kubelet from finishing. What that is: orphan-reaper explain POD")
	}
	if used > 1 {
		item("wait", Yellow, t.After("no process or loop device uses a file of them", sweepCommand))
	} else if used == 1 {
		item("wait", Yellow, t.After(ends, sweepCommand))
	}
	if named > 0 {
		as := human.Plural(named, "it as an orphan.", "them as orphans.")
		item("wait", Yellow, human.Count(named, "pod")+": until the kubelet reports "+as)
	}
	if counts["wait"] > clears+used+named {
		text := "Nothing to do: it ends by itself."
		if longest > 0 {
			text = "Nothing to do: it ends by itself, the next change comes within " + human.Age(longest) + "."
		}
		text = cmp.Or(t.Later(sweepCommand), text)
		item("wait", Yellow, text)
	}
	if counts["keep"] > 0 {
		item("keep", colourOf("keep", person), "What keeps a pod, and what to do about it: orphan-reaper explain POD")
	}
}

// inventory says how many pods there are, by state, and what the kubelet is terminating.
func (p *Printer) inventory(n *nodeView) {
	if n == nil {
		return
	}
	var words []string
	for _, s := range inventory.States() {
		if count, ok := n.Pods[s]; ok {
			words = append(words, human.Thousands(count)+" "+strings.ReplaceAll(string(s), "_", " "))
		}
	}
	if len(words) > 0 {
		p.Printf("\n")
		p.Para("", "Pods of this node: "+strings.Join(words, ", ")+".")
	}
	p.ending(n)
}

// ending tells of pods that nobody wants and that the kubelet has not finished with: its own
// count names none of them.
func (p *Printer) ending(n *nodeView) {
	if working, ok := n.Gauges.Ending(); ok && working > 0 {
		p.Printf("\n")
		p.Para("", fmt.Sprintf("The kubelet is still terminating %s (kubelet_working_pods). If that number stays, it does not finish: "+
			"its log has the cause, and a restart ends it (kubernetes#113145).", human.Count(working, "pod")))
	}
}

// means says where the kernel does not hold the line as well as it could: the code's own
// checks stand alone then. What is as it should be is not told here.
func (p *Printer) means(n *nodeView) {
	if n == nil {
		return
	}
	for _, m := range []struct {
		name string
		fact policy.Fact
	}{{"Landlock", n.Landlock}, {"openat2", n.Openat2}} {
		if m.fact.Truth == policy.No {
			p.Printf("\n")
			p.Para("", fmt.Sprintf("%s is not used: %s.", m.name, clean.Text(m.fact.Detail)))
		}
	}
}

// kubeletCounts puts what the kubelet counts beside what it says: an orphan in which
// something is mounted is never named in its log.
func (p *Printer) kubeletCounts(n *nodeView) {
	if n == nil || n.Gauges.Uncleaned == nil {
		return
	}
	text := fmt.Sprintf("The kubelet counts %s that it cannot clean up; in its log it has named %s of those here since its start; %s on disk.",
		human.Count(*n.Gauges.Uncleaned, "orphan"), human.Thousands(n.OrphansNamed), human.Verb(n.OrphansOnDisk, "is", "are"))
	if *n.Gauges.Uncleaned > int64(n.OrphansNamed) {
		text += " It names one at a time, and none in which something is mounted."
	}
	p.Printf("\n")
	p.Para("", text)
}

// verdictOf is the verdict with the living told apart: a person does not look for them.
func verdictOf(pod *podView) string {
	if pod.outlook() == policy.OutlookAlive && !pod.ended() {
		return "alive"
	}
	return string(pod.Verdict)
}

// colourOf is the one rule of colours: red for what failed or needs a person, yellow for what waits, green for
// what went or may go, and none for the rest.
func colourOf(word string, person bool) Colour {
	switch word {
	case outcomeFailed:
		return red
	case string(policy.Keep), outcomeKept:
		if person {
			return red
		}
	case string(policy.Wait):
		return Yellow
	case string(policy.Reap), outcomeRemoved, outcomeWouldRemove, outcomeQuarantined, outcomeWouldQuarantine:
		return green
	}
	return ""
}

func verdictWord(pod *podView) (string, Colour) {
	word := verdictOf(pod)
	return word, colourOf(word, pod.outlook() == policy.OutlookPerson)
}

// tableOrder is the order of the table: what goes, what waits, what is kept, what lives.
var tableOrder = []string{"reap", "wait", "keep", "alive"}

// lookErrors says what could not be looked at.
func (p *Printer) lookErrors(v *Report) {
	if len(v.Errors) == 0 {
		return
	}
	p.Printf("\n%s\n", p.Paint(Yellow, "Not everything could be looked at:"))
	for _, e := range v.Errors {
		p.Item("  ", "-", 2, "", clean.Text(e))
	}
}
