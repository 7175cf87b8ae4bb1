package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/advice"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/inventory"
)

// Scan is scan for a person: the sums, the table, and what to do.
func (p *Printer) Scan(v *Report) {
	shown := v.shown()
	p.Aside(func() { p.halted(v); p.sums(v, shown) })
	p.Table("VERDICT", 9, "POD", podRows(v.listed(shown), never, verdictWord))
	p.Table("VERDICT", 9, "CNI", cniRows(v.listedCNI(), v.all, func(f *cniView) (string, Colour) {
		return string(f.Verdict), verdictColours[string(f.Verdict)]
	}))
	p.Aside(func() {
		p.more(v)
		p.lookErrors(v)
		p.whatToDo(v.taker, shown, len(shown)-len(v.Pods))
		p.conflicts(v)
		p.kubeletCounts(v.Node)
		p.inventory(v.Node)
		p.means(v.Node)
	})
}

// halted says that the breaker is open: who resumes has to look first.
func (p *Printer) halted(v *Report) {
	if v.halted {
		p.Para("", advice.Halted)
	}
}

// more says that CNI's files are told of as far as a report has them.
func (p *Printer) more(v *Report) {
	if v.CNITotals.More > 0 {
		p.Printf("\n%s more are counted, and not listed.\n", human.Count(v.CNITotals.More, "CNI file"))
	}
}

const sweepCommand = "orphan-reaper sweep"

// whatToDo says for each verdict what ends it; gone is how many pods only the runtime has.
func (p *Printer) whatToDo(t advice.Taker, shown []podView, gone int) {
	counts := map[string]int{}
	var longest time.Duration
	clears := 0
	for i := range shown {
		pod := &shown[i]
		counts[verdictOf(pod)]++
		if len(pod.Clear) > 0 {
			clears++
		}
		longest = max(longest, time.Duration(pod.DueSeconds)*time.Second)
	}
	if len(counts) > counts["alive"] && counts["alive"] < len(shown) {
		p.Printf("\n")
	}
	if gone > 0 {
		p.Item("  ", "gone", 7, "", human.Count(gone, "more pod")+" only in the runtime: no directory, and a sandbox or container.")
	}
	if counts["reap"] > 0 {
		p.Item("  ", "reap", 7, green, cmp.Or(t.Now("them", sweepCommand), sweepCommand+" takes them now; the daemon does it by itself."))
	}
	if clears > 0 {
		p.Item("  ", "clear", 7, Yellow, human.Count(clears, "pod")+": sweep would quarantine what keeps the kubelet from finishing; explain POD says what that is.")
	}
	if counts["wait"] > clears {
		text := "Nothing to do: it ends by itself."
		if longest > 0 {
			text = "Nothing to do: it ends by itself, the next change comes within " + human.Age(longest) + "."
		}
		text = cmp.Or(t.Later(sweepCommand), text)
		p.Item("  ", "wait", 7, Yellow, text)
	}
	if counts["keep"] > 0 {
		p.Item("  ", "keep", 7, red, "orphan-reaper explain POD says what keeps a pod and what to do about it.")
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
		p.Para("", fmt.Sprintf("The kubelet works on %s that nobody wants any more (kubelet_working_pods). If that number stays, it terminates them for ever: "+
			"its log says why, and its restart ends it (kubernetes#113145).", human.Count(working, "pod")))
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
	if pod.outlook() == policy.OutlookAlive {
		return "alive"
	}
	return string(pod.Verdict)
}

var verdictColours = map[string]Colour{"reap": green, "wait": Yellow, "keep": red, "alive": Faint}

func verdictWord(pod *podView) (string, Colour) {
	word := verdictOf(pod)
	return word, verdictColours[word]
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
