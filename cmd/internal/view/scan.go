package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/inventory"
)

// Scan is scan for a person: the table, the totals, and what to do.
func (p *Printer) Scan(v *Report) {
	shown := v.shown()
	if len(shown) == 0 {
		p.Printf("No pod directories.\n")
	}
	p.table("VERDICT", 9, heading(shown, v.CNI), slices.Concat(podRows(shown, verdictWord), cniRows(v.CNI, func(f *cniView) (string, Colour) {
		return string(f.Verdict), verdictColours[string(f.Verdict)]
	})))
	p.lookErrors(v)
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
	p.Printf("\n%s: %d reap, %d wait, %d keep, %d alive; %d in quarantine\n",
		human.Count(len(v.Pods), "pod directory"), counts["reap"], counts["wait"], counts["keep"], counts["alive"], len(v.Quarantine))
	if n := len(shown) - len(v.Pods); n > 0 {
		p.Item("  ", "gone", 7, "", human.Count(n, "more pod")+" only in the runtime: no directory, and a sandbox or container.")
	}
	if len(v.CNI) > 0 {
		p.Printf("%s\n", cniTotals(v.CNITotals, false, false))
	}
	if n := counts["reap"]; n > 0 {
		p.Item("  ", "reap", 7, green, "orphan-reaper sweep takes them now; the daemon does it by itself.")
	}
	if clears > 0 {
		p.Item("  ", "clear", 7, Yellow, fmt.Sprintf("%s: sweep would quarantine what keeps the kubelet from finishing; explain UID says what that is.",
			human.Count(clears, "pod")))
	}
	if n := counts["wait"]; n > clears {
		text := "Nothing to do: it ends by itself."
		if longest > 0 {
			text = "Nothing to do: it ends by itself, the next change comes within " + human.Age(longest) + "."
		}
		p.Item("  ", "wait", 7, Yellow, text)
	}
	if n := counts["keep"]; n > 0 {
		p.Item("  ", "keep", 7, red, "orphan-reaper explain UID says what keeps a pod and what to do about it.")
	}
	p.kubeletCounts(v.Node)
	p.inventory(v.Node)
	p.means(v.Node)
}

// inventory says how many pods there are, by state, and what the kubelet is terminating.
func (p *Printer) inventory(n *nodeView) {
	if n == nil {
		return
	}
	var words []string
	for _, s := range inventory.States() {
		if count, ok := n.Pods[s]; ok {
			words = append(words, fmt.Sprintf("%d %s", count, strings.ReplaceAll(string(s), "_", " ")))
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
	text := fmt.Sprintf("The kubelet counts %s that it cannot clean up; in its log it has named %d of those here since its start; %d are on disk.",
		human.Count(*n.Gauges.Uncleaned, "orphan"), n.OrphansNamed, n.OrphansOnDisk)
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
